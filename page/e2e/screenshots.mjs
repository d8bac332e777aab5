// Takes screenshots of every screen, light and dark, wide and narrow, into the first folder given,
// and the pictures of the guide into the second (WEIR_BIN is the binary). Somebody has to look at
// them. The records are those of `weir load demo`.
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { openBrowser, openPage, serve, startWeir, stored, weirBinary } from './harness.mjs'

const [folder = 'screenshots', pictures] = process.argv.slice(2)
mkdirSync(folder, { recursive: true })
const sizes = { wide: { width: 1440, height: 900 }, narrow: { width: 390, height: 844 } }
const screens = {
  explore: '/?from=now-15m',
  record: '/?from=now-15m&q=status:error+service:payments',
  'record-path': '/?from=now-15m&q=status:error+service:payments&tab=path',
  'explore-groups': '/?from=now-15m&view=groups&group=service',
  latency: '/?from=now-15m&view=latency',
  live: '/live',
  pipeline: '/pipeline',
  drains: '/drains',
  reliability: '/reliability',
  capacity: '/capacity',
}

const wide = { colorScheme: 'light', viewport: sizes.wide }
/** The pictures of the guide, by file. */
const guide = {
  explore: [screens.record, wide],
  path: [screens['record-path'], wide],
  latency: [
    '/?from=now-15m&q=service:gateway&view=latency',
    { colorScheme: 'dark', viewport: { width: 1440, height: 1000 } },
  ],
  pipeline: [screens.pipeline, wide],
  drains: [screens.drains, wide],
  reliability: [screens.reliability, wide],
}

const shop = mkdtempSync(path.join(tmpdir(), 'weir-shop-'))
const weir = await startWeir({ drains: true, follow: shop })
const server = await serve(weir.address)
const browser = await openBrowser()
const sink = net.createServer((socket) => socket.on('error', () => undefined).resume())
await new Promise((resolve) => sink.listen(0, '127.0.0.1', resolve))
let demo
try {
  await draw('drains-none', '/drains')
  await fill()
  for (const [name, address] of Object.entries(screens)) await draw(name, address)
  for (const [name, [address, options]] of Object.entries(pictures ? guide : {}))
    await picture(`${pictures}/${name}.png`, address, options)
} finally {
  demo?.kill()
  await browser.close()
  await server.close()
  await weir.end()
  sink.close()
  rmSync(shop, { recursive: true, force: true })
}

async function fill() {
  demo = spawn(weirBinary(), ['load', 'demo', shop], { stdio: 'ignore' })
  await stored(weir, '', 30_000)
  // Now, so that what was written of the past does not wait for the one that fails.
  await addDrain({ url: `syslog://127.0.0.1:${sink.address().port}?drain-data=all` })
  await addDrain({ url: 'syslog://127.0.0.1:9', space: '7b1d6c2e-9a0f-4c1b-8b7e-3d5f2a6c9e00' })
  await addDrain({ url: 'https-batch://127.0.0.1:9/ingest', hostname: 'org.space.app' })
}

async function addDrain(drain) {
  await fetch(`${weir.address}/weir/v1/drains`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(drain),
  })
}

async function draw(name, address) {
  for (const colorScheme of ['light', 'dark']) {
    for (const [size, viewport] of Object.entries(sizes)) {
      const file = `${folder}/${name}-${colorScheme}-${size}.png`
      await picture(file, address, { colorScheme, viewport })
    }
  }
}

async function picture(file, address, options) {
  const { page, close } = await openPage(browser, options)
  await page.goto(server.address + address)
  await page.waitForTimeout(2_500)
  if (address.includes('service:payments')) {
    await page.locator('.record-space .record').nth(3).click()
    await page.mouse.move(0, 0)
  }
  await page.waitForTimeout(1_000)
  await page.screenshot({ path: file })
  await close()
}
