// Load: a hundred thousand rows in the list, and a live tail of five thousand lines a second for a
// minute. `measure.mjs` measures speed; these tests check what must hold on any machine: few
// elements, bounded memory, and every line counted.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openPage, stored, until, world } from './harness.mjs'

const rowsMax = 100_000
const here = world(async (weir) => {
  const time = Date.now() - 600_000
  for (let at = 0; at < rowsMax + 1_000; at += 1_000) {
    const batch = Array.from({ length: 1_000 }, (_, one) => ({
      message: `GET /orders/${at + one} 200 in ${one % 90} ms`,
      service: `s${one % 5}`,
      status: one % 50 ? 'info' : 'error',
      timestamp: time + at + one,
    }))
    await weir.post(batch)
  }
  await stored(weir, '', rowsMax + 1_000)
})

async function heapOf(page) {
  const session = await page.context().newCDPSession(page)
  await session.send('HeapProfiler.collectGarbage')
  const { usedSize } = await session.send('Runtime.getHeapUsage')
  await session.detach()
  return usedSize
}

test('a hundred thousand rows scroll like ten', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/?from=now-1h`)
  await page.locator('.record-space .record').first().waitFor()
  const list = page.locator('.records')
  await list.focus()
  await until(
    'the end is reached by keyboard',
    async () => {
      await page.keyboard.press('End')
      return (await page.locator('.records-end').count()) > 0
    },
    120_000,
  )
  const said = await page.locator('.records-end').innerText()
  const shown = Number(/^([\d,]+) records are shown/.exec(said)?.[1]?.replaceAll(',', ''))
  assert.ok(shown >= rowsMax, said)
  await page.keyboard.press('End')
  await page.locator(`.record[aria-rowindex="${shown + 1}"]`).waitFor()
  const most = await list.evaluate(async (element) => {
    let found = 0
    for (let at = 0; at < 200; at += 1) {
      element.scrollTop = (element.scrollHeight * (200 - at)) / 200
      await new Promise((resolve) => requestAnimationFrame(resolve))
      found = Math.max(found, element.querySelectorAll('.record').length)
    }
    return found
  })
  assert.ok(most < 200, `${most} rows are in the document`)
  const heap = await heapOf(page)
  assert.ok(heap < 250e6, `${Math.round(heap / 1e6)} MB are in use`)
  assert.deepEqual(complaints, [])
  await close()
})

test('a minute at 5,000 lines a second: all are counted, and memory does not grow', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/live?rate=5000`)
  await page.locator('.rate', { hasText: /^\s*live/ }).waitFor()
  const figure = async (name) => {
    const text = await page.locator('.rate', { hasText: name }).getAttribute('title')
    return Number(text.split(' ')[0].replaceAll(',', ''))
  }
  let sent = 0
  const send = async (seconds) => {
    for (let turn = 0; turn < seconds * 10; turn += 1) {
      const next = Date.now() + 100
      const line = (_, at) => ({ message: `GET /orders/${sent + at} 200`, service: `s${at % 5}` })
      await here.weir.post(Array.from({ length: 500 }, line))
      sent += 500
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, next - Date.now())))
    }
  }
  await send(15)
  const before = await heapOf(page)
  await send(45)
  await until('all are counted', async () => (await figure('matched')) === sent, 30_000)
  const [shown, skipped] = [await figure('shown'), await figure('skipped')]
  assert.equal(shown + skipped, sent)
  assert.equal(await figure('missed'), 0)
  const grown = (await heapOf(page)) - before
  assert.ok(grown < 20e6, `the page grew by ${Math.round(grown / 1e6)} MB`)
  assert.ok((await page.locator('.live-row').count()) < 200)
  assert.deepEqual(complaints, [])
  await close()
})
