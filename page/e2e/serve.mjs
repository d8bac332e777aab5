// Serves the built page as weir does: with a strict content security policy, immutable names, one
// document for every screen, and the API behind it. Tests can stop and start the API alone.
import { createReadStream, existsSync, statSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const dist = fileURLToPath(new URL('../dist/', import.meta.url))

export const policy =
  "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"

const types = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Serves on a free port; `prefix` is where a reverse proxy would put the page. */
export async function serve(api, { port = 0, prefix = '' } = {}) {
  const server = http.createServer((request, response) => {
    const url = request.url ?? '/'
    if (!url.startsWith(prefix)) return end(response, 404)
    const rest = url.slice(prefix.length)
    if (/^\/(api|weir|health|metrics)(\/|$|\?)/.test(rest))
      return forward(api, rest, request, response)
    return sendFile(rest.split('?')[0] ?? '/', response)
  })
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve))
  const address = `http://127.0.0.1:${server.address().port}${prefix}`
  return {
    address,
    close: () => {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(resolve))
    },
  }
}

function end(response, status) {
  response.writeHead(status).end()
}

function sendFile(name, response) {
  const file = path.join(dist, path.normalize(name))
  const found = file.startsWith(dist) && existsSync(file) && statSync(file).isFile()
  if (!found && name.startsWith('/assets/')) return end(response, 404)
  const sent = found ? file : path.join(dist, 'index.html')
  response.writeHead(200, {
    'content-type': types[path.extname(sent)] ?? 'application/octet-stream',
    'content-security-policy': policy,
    'x-content-type-options': 'nosniff',
    'cache-control': name.startsWith('/assets/')
      ? 'public, max-age=31536000, immutable'
      : 'no-cache',
  })
  createReadStream(sent).pipe(response)
}

function forward(api, url, request, response) {
  const target = new URL(url, api)
  // The host stays what the browser asked for: weir compares it with the origin.
  const { method, headers } = request
  const sent = http.request(target, { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers)
    answer.pipe(response)
    answer.on('aborted', () => response.destroy())
  })
  sent.on('error', () => (response.headersSent ? response.destroy() : end(response, 502)))
  response.on('close', () => sent.destroy())
  request.pipe(sent)
}
