// A real weir with its data in a temporary directory, the built page in front of it, and a browser.
// Script errors and violations of the security policy fail a test.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before } from 'node:test'
import { fileURLToPath } from 'node:url'
import { chromium } from 'playwright-core'
import { serve } from './serve.mjs'

const root = fileURLToPath(new URL('../../', import.meta.url))

function found(name, candidates) {
  const file = candidates.find((one) => one && existsSync(one))
  if (!file)
    throw new Error(
      `${name} is not set, and there is none of: ${candidates.filter(Boolean).join(', ')}`,
    )
  return file
}

export const weirBinary = () =>
  found('WEIR_BIN', [
    process.env.WEIR_BIN,
    `${root}target/checked/weir`,
    `${root}target/release/weir`,
  ])
const chromiumBinary = () =>
  found('CHROMIUM', [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/google-chrome'])

/** Waits for something that will be so, or says what was not. */
export async function until(what, check, limit = 10_000) {
  const end = Date.now() + limit
  for (;;) {
    const value = await check()
    if (value) return value
    if (Date.now() > end) throw new Error(`not within ${limit} ms: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/**
 * `drains`: with drains and a service for readers of Loggregator, which are off otherwise; `follow`: a
 * folder whose files are followed, too; `collector`: the address of a server that also gets every
 * record, before which only little waits; `token`: what its API requires, `readToken`: one that may only
 * read, and `cloud`: the address of a server that stands for UAA and the Cloud Controller; `store`:
 * whether records are stored.
 */
export async function startWeir(options = {}) {
  const { drains = false, follow = '', collector = '', store = true } = options
  const { token = '', readToken = '', cloud = '' } = options
  const others = (drains ? ', "drains"' : '') + (collector ? ', "collector"' : '')
  const directory = mkdtempSync(path.join(tmpdir(), 'weir-page-'))
  const configuration = path.join(directory, 'weir.toml')
  const write = (api) =>
    writeFileSync(
      configuration,
      `data_dir = "${directory}/data"\ndefault_to = [${store ? '"store", ' : ''}"copy"${others}]\n` +
        `[api]\nlisten = "${api}"\n` +
        (token ? access() : '') +
        (store ? '' : '[store]\nenabled = false\n') +
        (drains ? '[drains]\n[loggregator.gateway]\nlisten = "127.0.0.1:0"\n' : '') +
        (follow ? `[source.shop]\ntype = "file"\ninclude = ["${follow}/*.log"]\n` : '') +
        (collector
          ? `[output.collector]\ntype = "http"\nurl = "${collector}"\nbuffer_max = "4MiB"\n` +
            'window = "1MiB"\nbatch_size = "256KiB"\nretry_max = "200ms"\nretry_min = "50ms"\n'
          : '') +
        '[source.intake]\ntype = "datadog_intake"\nlisten = "127.0.0.1:0"\n' +
        '[[rule]]\nname = "health"\nwhen = \'"GET /healthz"\'\ndrop = true\n' +
        `[[rule]]\nname = "nobody"\nwhen = "service:nobody"\nto = ["${store ? 'store' : 'copy'}"]\n` +
        `[output.copy]\ntype = "file"\npath = "${directory}/copy.log"\n`,
    )
  function access() {
    const files = { tokens: token, read_tokens: readToken, uaa_secret: 'secret' }
    const keys = Object.entries(files).map(([name, text]) => {
      writeFileSync(`${directory}/${name}`, text, { mode: 0o600 })
      return `${name} = { file = "${directory}/${name}" }\n`
    })
    const servers = `uaa = "${cloud}"\ncloud_controller = "${cloud}"\nuaa_client = "weir"\n`
    return `[api.access]\n${cloud ? keys.join('') + servers : keys.slice(0, 2).join('')}`
  }
  const headers = token ? { authorization: `Bearer ${token}` } : {}
  write('127.0.0.1:0')
  let child
  const weir = { headers, address: '', start, stop, post, end, status }

  async function start() {
    child = spawn(weirBinary(), ['run', '-c', configuration], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let log = ''
    child.stderr.setEncoding('utf8').on('data', (text) => {
      log += text
    })
    const api = await until(
      'weir says where its API is',
      () => /"api":"(http:[^"]+)"/.exec(log)?.[1],
    )
    weir.address = api
    write(new URL(api).host)
    await until('weir answers', () =>
      fetch(`${api}/health/live`).then(
        (one) => one.ok,
        () => false,
      ),
    )
    weir.intake = (await status()).sources.find((source) => source.address).address
  }

  async function status() {
    return (await fetch(`${weir.address}/weir/v1/status`, { headers })).json()
  }

  async function stop(signal = 'SIGKILL') {
    const gone = new Promise((resolve) => child.once('exit', resolve))
    child.kill(signal)
    await gone
  }

  async function post(records) {
    const answer = await fetch(`http://${weir.intake}/api/v2/logs`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(records),
    })
    if (!answer.ok) throw new Error(`the intake answered ${answer.status}: ${await answer.text()}`)
  }

  async function end() {
    await stop().catch(() => undefined)
    rmSync(directory, { recursive: true, force: true })
  }

  await start()
  return weir
}

/** Waits until so many records can be searched. */
export async function stored(weir, query, count) {
  const body = JSON.stringify({
    filter: { query, from: 'now-1d', to: 'now+1d' },
    compute: [{ aggregation: 'count' }],
  })
  await until(`${count} records of ${query || 'all'} are stored`, async () => {
    const answer = await fetch(`${weir.address}/api/v2/logs/analytics/aggregate`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...weir.headers },
      body,
    })
    const { data } = await answer.json()
    return (data?.buckets[0]?.computes.c0 ?? 0) >= count
  })
}

/** Requests over three services with traces, service time, waiting, and one error in ten. */
export function requests(count, end = Date.now(), span = 600_000) {
  return Array.from({ length: count }, (_, at) => {
    const timestamp = end - span + Math.floor((at / count) * span)
    const failed = at % 10 === 0
    const trace_id = `${at}`.padStart(32, '0')
    const work = 5 + (at % 40)
    const wait = at % 7
    const common = { timestamp, trace_id, ddtags: 'env:prod' }
    return [
      {
        ...common,
        service: 'web',
        hostname: `web-${at % 3}`,
        status: failed ? 'error' : 'info',
        message: `GET /orders/${at} ${failed ? 500 : 200}`,
        request_time_ms: work + wait,
        service_time_ms: work,
        duration: (work + wait) * 1e6,
        http: { status_code: failed ? 500 : 200, method: 'GET' },
      },
      {
        ...common,
        service: 'api',
        hostname: 'api-1',
        status: 'info',
        message: `handled order ${at}`,
        duration: work * 1e6,
      },
      ...(failed
        ? [
            {
              ...common,
              service: 'payment gate',
              hostname: 'pay-1',
              status: 'error',
              message: 'payment failed: timed out',
            },
          ]
        : []),
    ]
  }).flat()
}

export async function inBatches(weir, records) {
  for (let at = 0; at < records.length; at += 1_000) await weir.post(records.slice(at, at + 1_000))
}

export async function openBrowser() {
  return chromium.launch({ executablePath: chromiumBinary(), args: ['--no-sandbox'] })
}

/** A page that collects what goes wrong in it. */
export async function openPage(browser, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options })
  const page = await context.newPage()
  const complaints = []
  page.on('pageerror', (error) => complaints.push(error.message))
  page.on('console', (message) => {
    if (/Content Security Policy|Refused to/.test(message.text())) complaints.push(message.text())
  })
  return { page, complaints, close: () => context.close() }
}

/** A weir with what `fill` puts into it, the page before it, and a browser, for the tests of a file. */
export function world(fill = async () => undefined, options = {}) {
  const found = {}
  before(async () => {
    found.weir = await startWeir(options)
    found.server = await serve(found.weir.address)
    found.browser = await openBrowser()
    await fill(found.weir)
  })
  after(async () => {
    await found.browser?.close()
    await found.server?.close()
    await found.weir?.end()
  })
  return found
}

/** What tests of Explore do: open an address of it with its records, act, and expect no complaints. */
export function exploring(here) {
  return async (path, act, options) => {
    const { page, complaints, close } = await openPage(here.browser, options)
    await page.goto(here.server.address + path)
    await page.locator('.record-space .record').first().waitFor()
    await act(page)
    await close()
    assert.deepEqual(complaints, [])
  }
}

/** A parameter in the address of the page. */
export const parameter = (page, name) => new URL(page.url()).searchParams.get(name)

/** The number of matching records that is shown. */
export const matched = (page) => page.locator('.summary strong').innerText()

export { serve }
