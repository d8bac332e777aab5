// Live tail: nothing moves while the user reads, and every row is shown, skipped or reported as
// missing.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openPage, until, world } from './harness.mjs'

const here = world()

const lines = (from, count) =>
  Array.from({ length: count }, (_, at) => ({
    message: `line number ${from + at}`,
    service: `s${at % 3}`,
    status: 'info',
  }))

async function openLive(path = '/live?rate=5000', options = {}) {
  const opened = await openPage(here.browser, options)
  await opened.page.goto(here.server.address + path)
  await opened.page.locator('.rate', { hasText: /^\s*live/ }).waitFor()
  return opened
}

async function searched(weir, query) {
  const body = JSON.stringify({ filter: { query, from: 'now-1d', to: 'now+1d' } })
  const answer = await fetch(`${weir.address}/api/v2/logs/events/search`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
  })
  return answer.json()
}

/** Until scrolling has come to rest. */
async function still(page) {
  const top = () => page.locator('.live-rows').evaluate((element) => element.scrollTop)
  let last = -1
  await until('nothing scrolls', async () => {
    const now = await top()
    const same = now === last
    last = now
    return same
  })
}

const figure = async (page, name) => {
  const text = await page.locator('.rate', { hasText: name }).getAttribute('title')
  return Number(text.split(' ')[0].replaceAll(',', ''))
}

test('a tail of a weir that got nothing yet offers the demo', async () => {
  const { page, close } = await openLive()
  await page.locator('.state .command', { hasText: 'weir load demo' }).waitFor()
  const latency = await openPage(here.browser)
  await latency.page.goto(`${here.server.address}/?view=latency`)
  await latency.page.locator('.state .command', { hasText: 'weir load demo' }).waitFor()
  await here.weir.post([{ message: 'first', took_ms: 5 }])
  await page.locator('.live-row', { hasText: 'first' }).waitFor()
  await latency.page.locator('.latency-summary').waitFor({ timeout: 15_000 })
  await latency.close()
  await close()
})

test('rows come, wait while somebody reads, and are caught up with', async () => {
  const { page, complaints, close } = await openLive()
  await here.weir.post(lines(0, 100))
  await page.getByText('line number 99').waitFor()
  await page.locator('.live-rows').hover()
  await page.mouse.wheel(0, -600)
  await page.locator('.catch-up').waitFor()
  await still(page)
  const anchor = page.locator('.live-row').first()
  const before = { text: await anchor.innerText(), top: (await anchor.boundingBox()).y }
  await here.weir.post(lines(100, 300))
  await page.locator('.catch-up', { hasText: '300 new' }).waitFor()
  assert.equal(await anchor.innerText(), before.text)
  assert.equal((await anchor.boundingBox()).y, before.top)
  await page.keyboard.press('p')
  await page.getByText('line number 399').waitFor()
  await until('matched is shown', async () => (await figure(page, 'matched')) === 400)
  assert.equal(await figure(page, 'shown'), 400)
  assert.deepEqual(complaints, [])
  await close()
})

test('a finger or the scroll bar stops the list as well', async () => {
  const phone = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true }
  const { page, complaints, close } = await openLive(undefined, phone)
  await here.weir.post(lines(5_000, 200))
  await page.getByText('line number 5199').waitFor()
  await still(page)
  const list = page.locator('.live-rows')
  const session = await page.context().newCDPSession(page)
  const touch = (type, ...touchPoints) =>
    session.send('Input.dispatchTouchEvent', { type, touchPoints })
  await touch('touchStart', { x: 200, y: 350 })
  for (let y = 360; y <= 650; y += 10) await touch('touchMove', { x: 200, y })
  await touch('touchEnd')
  await page.locator('.catch-up').waitFor()
  const placeOf = () => list.evaluate((element) => element.scrollTop)
  await still(page)
  const place = await placeOf()
  await here.weir.post(lines(5_200, 50))
  await page.locator('.catch-up', { hasText: '50 new' }).waitFor()
  assert.equal(await placeOf(), place)
  await page.locator('.catch-up').click()
  await page.getByText('line number 5249').waitFor()
  await list.evaluate((element) => {
    element.scrollTop -= 200
  })
  await page.locator('.catch-up').waitFor()
  assert.deepEqual(complaints, [])
  await close()
})

test('a slow finger near the end stops the list, and coming back to the end resumes it', async () => {
  const { page, complaints, close } = await openLive()
  await here.weir.post(lines(6_000, 100))
  await page.getByText('line number 6099').waitFor()
  await still(page)
  const list = page.locator('.live-rows')
  const below = () =>
    list.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight)
  const moved = (by) =>
    list.evaluate(async (element, by) => {
      element.scrollTop += by
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve))
      await frame()
      await frame()
    }, by)
  for (let step = 1; step <= 4; step += 1) {
    await moved(-4)
    assert.ok((await below()) >= step * 4 - 1, `${await below()} pixels below after ${step} steps`)
  }
  await page.locator('.catch-up', { hasText: 'Follow' }).waitFor()
  await here.weir.post(lines(6_100, 50))
  await page.locator('.catch-up', { hasText: '50 new' }).waitFor()
  await page.locator('.catch-up').click()
  await page.getByText('line number 6149').waitFor()
  await moved(-100)
  await page.locator('.catch-up').waitFor()
  await moved(100)
  await page.locator('.catch-up').waitFor({ state: 'detached' })
  assert.deepEqual(complaints, [])
  await close()
})

test('a selection of text is kept', async () => {
  const { page, close } = await openLive()
  await here.weir.post(lines(1_000, 20))
  const row = page.locator('.live-row', { hasText: 'line number 1010' })
  await row.waitFor()
  await row.locator('.message').dblclick()
  const selected = await page.evaluate(() => getSelection().toString())
  assert.ok(selected.length > 0)
  await here.weir.post(lines(2_000, 200))
  await page.locator('.catch-up', { hasText: '200 new' }).waitFor()
  assert.equal(await page.evaluate(() => getSelection().toString()), selected)
  await close()
})

test('sampling is said, and shown and skipped add up to what matched', async () => {
  const { page, close } = await openLive('/live?rate=100')
  for (let at = 0; at < 4; at += 1) await here.weir.post(lines(at * 1_000, 1_000))
  await page.locator('.badge', { hasText: 'a sample of' }).waitFor()
  await until('all are counted', async () => (await figure(page, 'matched')) === 4_000)
  assert.equal((await figure(page, 'shown')) + (await figure(page, 'skipped')), 4_000)
  await close()
})

test('a row says when it was written and received, and what became of it', async () => {
  const { page, complaints, close } = await openLive()
  const written = Date.now() - 5_000
  await here.weir.post([{ message: 'a late one', service: 'web', timestamp: written }])
  await page.locator('.live-row', { hasText: 'a late one' }).click()
  await page.getByRole('tab', { name: 'Path' }).click()
  const path = page.locator('.path')
  assert.match(await path.innerText(), /Received by intake/)
  assert.match(await path.innerText(), /(5|6|7)(\.\d+)? s after it was written/)
  const copy = path.locator('.hop', { hasText: 'copy (file)' })
  await copy.getByText('after it was in the journal').waitFor({ timeout: 15_000 })
  await copy.getByText(/Delivered|Settled/).waitFor()
  assert.deepEqual(complaints, [])
  await close()
})

test('a row is the stored record as soon as that is there', async () => {
  const { page, complaints, close } = await openLive()
  const trace_id = 'ef'.repeat(16)
  const around = [0, 1, 2].map((at) => ({ message: `neighbour ${at}`, service: 'near', trace_id }))
  await here.weir.post(around)
  await page.locator('.live-row', { hasText: 'neighbour 1' }).click()
  await page.getByRole('tab', { name: 'Context' }).click()
  await page.locator('.record-line[aria-current=true]', { hasText: 'neighbour 1' }).waitFor()
  await page.locator('.record-line', { hasText: 'neighbour 2' }).waitFor()
  await page.getByRole('tab', { name: 'Trace' }).click()
  await page.locator('.waterfall-row').nth(2).waitFor()
  await page.getByRole('tab', { name: 'Path' }).click()
  await page.locator('.hop', { hasText: 'store (store)' }).getByText('Stored.').waitFor()
  // What a search calls the row is what the tail called it.
  const { data } = await searched(here.weir, '"neighbour 1"')
  const link = page.getByRole('link', { name: 'Open in Explore' })
  const row = new URL(await link.getAttribute('href'), page.url()).searchParams.get('row')
  assert.deepEqual(
    data.map(({ id }) => id),
    [row],
  )
  await link.click()
  await page.locator('.explore .drawer-message', { hasText: 'neighbour 1' }).waitFor()
  await page.locator('.record.selected', { hasText: 'neighbour 1' }).waitFor()
  assert.equal(new URL(page.url()).searchParams.get('q'), 'service:near')
  assert.deepEqual(complaints, [])
  await close()
})

test('rows are walked and opened without a mouse', async () => {
  const { page, complaints, close } = await openLive()
  await here.weir.post(lines(3_000, 10))
  await page.getByText('line number 3009').waitFor()
  for (const key of ['j', 'k', 'k']) await page.keyboard.press(key)
  await until('the third row from the end has the focus', () =>
    page.evaluate(() => document.activeElement.textContent.includes('line number 3007')),
  )
  await page.keyboard.press('Enter')
  await page.locator('.drawer', { hasText: 'line number 3007' }).waitFor()
  await page.keyboard.press('Escape')
  await page.locator('.drawer').waitFor({ state: 'detached' })
  assert.deepEqual(complaints, [])
  await close()
})

test('a query that cannot be read is refused in words', async () => {
  const { page, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/live?q=status:(`)
  await page.locator('.state[role=alert]').waitFor()
  await page.locator('.rate', { hasText: 'rejected' }).waitFor()
  await close()
})

test('a killed weir is said, and the tail goes on once it is back, with the gap as a row', async () => {
  const { page, close } = await openLive()
  await here.weir.post(lines(0, 5))
  await page.getByText('line number 4').waitFor()
  await here.weir.stop()
  await page.locator('.rate', { hasText: 'disconnected for' }).waitFor()
  await here.weir.start()
  await page.locator('.rate', { hasText: /^\s*live/ }).waitFor({ timeout: 20_000 })
  await page.locator('.live-gap', { hasText: 'reconnected after' }).waitFor()
  await page.locator('.live-gap.gap', { hasText: 'missing' }).waitFor()
  await here.weir.post(lines(500, 5))
  await page.getByText('line number 504').waitFor()
  await close()
})
