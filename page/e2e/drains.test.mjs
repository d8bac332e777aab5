// Drains, readers and stored views in a browser, with a real weir.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import net from 'node:net'
import { after, test } from 'node:test'
import { inBatches, openPage, requests, stored, until, world } from './harness.mjs'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const sent = 300
const here = world(
  async (weir) => {
    here.destination = await destination()
    await inBatches(weir, requests(sent))
    await stored(weir, '', sent * 2)
  },
  { drains: true },
)
after(() => here.destination?.close())

/** A destination of drains that accepts everything. */
async function destination() {
  const open = new Set()
  const server = net.createServer((socket) => {
    open.add(socket)
    socket.on('data', (data) => {
      found.text += data
    })
    socket.on('error', () => undefined)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const found = {
    text: '',
    url: `syslog://127.0.0.1:${server.address().port}`,
    close: () => {
      for (const socket of open) socket.destroy()
      server.close()
    },
  }
  return found
}

const drains = async () => (await fetch(`${here.weir.address}/weir/v1/drains`)).json()

async function addDrain(page, url) {
  await page.getByRole('button', { name: 'Add a drain' }).first().click()
  await page.getByLabel('Records of').selectOption('all')
  await page.getByLabel('Destination').fill(url)
  await page.getByRole('button', { name: 'Add', exact: true }).click()
}

const rowOf = (page, url) => page.locator('table.drains tbody tr', { hasText: url })

async function choose(page, url, action) {
  await rowOf(page, url).getByRole('button').click()
  await page.getByRole('menuitem', { name: action }).click()
}

test('a drain is added, tested, paused, resumed and removed', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/`)
  await page.locator('.record-space .record').first().waitFor()
  await page.keyboard.press('g')
  await page.keyboard.press('d')
  await page.getByRole('heading', { name: 'No drains yet' }).waitFor()

  await addDrain(page, 'gopher://nowhere')
  await page.locator('.form-problem').waitFor()
  await page.getByLabel('Destination').fill(here.destination.url)
  await page.getByRole('button', { name: 'Add', exact: true }).click()
  const row = rowOf(page, here.destination.url)
  await row.waitFor()

  const [first, second] = [requests(20), requests(10)]
  await here.weir.post(first)
  await until('its records arrive', () => here.destination.text.includes('handled order 19'))
  await row.locator(`td[title="${first.length} records"]`).first().waitFor()

  await choose(page, here.destination.url, 'Test the connection')
  await page.locator('.toast', { hasText: 'accepts connections' }).waitFor()
  await choose(page, here.destination.url, 'Pause')
  await row.getByText('paused').waitFor()
  await here.weir.post(second)
  await until('what comes for it waits', async () => {
    const [drain] = (await drains()).drains
    return drain.book.waiting === second.length
  })
  await choose(page, here.destination.url, 'Resume')
  await until('it catches up', async () => {
    const [drain] = (await drains()).drains
    return drain.book.delivered === first.length + second.length
  })

  await choose(page, here.destination.url, 'Remove')
  await page.getByRole('button', { name: 'Cancel' }).click()
  assert.equal((await drains()).drains.length, 1)
  await choose(page, here.destination.url, 'Remove')
  await page.getByRole('button', { name: 'Remove', exact: true }).click()
  await page.getByRole('heading', { name: 'No drains yet' }).waitFor()
  assert.equal((await drains()).balanced, true)
  const { outputs, sources } = await here.weir.status()
  assert.ok(outputs.every(({ book }) => book.unaccounted_records === 0))
  assert.ok(sources.every(({ book }) => book.unaccounted_lines === 0))
  assert.deepEqual(complaints, [])
  await close()
})

test('a drain that fails comes first and says why; the pipeline shows what lags', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/drains`)
  await addDrain(page, here.destination.url)
  await addDrain(page, 'syslog://127.0.0.1:9')
  await rowOf(page, '127.0.0.1:9').waitFor()
  await here.weir.post(requests(50))
  await rowOf(page, '127.0.0.1:9').getByText('failing for').waitFor()
  assert.match(await page.locator('table.drains tbody tr').first().innerText(), /127\.0\.0\.1:9/)
  assert.ok(await page.locator('.drain-error').first().innerText())
  await page.getByLabel('Find a drain').fill(':9')
  assert.equal(await page.locator('table.drains tbody tr').count(), 1)
  await page.locator('[aria-label=Readers]', { hasText: 'gateway' }).waitFor()

  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => window.axe.run())
  const serious = violations.filter((one) => /serious|critical/.test(one.impact))
  assert.deepEqual(
    serious.map((one) => `${one.id}: ${one.nodes[0]?.html}`),
    [],
  )

  await page.setViewportSize({ width: 390, height: 844 })
  const action = page.getByRole('button', { name: /^Actions for/ }).first()
  const { x, width } = await action.boundingBox()
  assert.ok(x + width <= 390, 'what can be done is on the screen of a phone')
  const tooWide = await page.evaluate(
    () => document.documentElement.scrollWidth - window.innerWidth,
  )
  assert.ok(tooWide <= 0, `${tooWide} px too wide`)
  await page.setViewportSize({ width: 1440, height: 900 })

  await page.goto(`${here.server.address}/pipeline`)
  await page.locator('.node', { hasText: 'drains/lagging' }).waitFor()
  await until('what was moved is in the books on the screen', async () => {
    const status = await here.weir.status()
    const moved = status.outputs.find(({ book }) => book.name === 'drains').book.book.moved
    const row = page
      .locator('[aria-label=Ledger] tr')
      .filter({ has: page.locator('th', { hasText: /^drains$/ }) })
    const cells = await row.locator('td').evaluateAll((all) => all.map((one) => one.title))
    return moved > 0 && cells.includes(`${moved}`)
  })
  assert.deepEqual(complaints, [])
  await close()
})

test('reliability says what arrived with the numbers of the ledger, and how to measure', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/reliability`)
  const row = page.locator('[aria-label=Delivery] tr', { hasText: 'to copy' })
  await row.waitFor()
  const { outputs } = await here.weir.status()
  const { book } = outputs.find((output) => output.book.name === 'copy')
  assert.equal(
    await row.locator('td').nth(2).getAttribute('title'),
    book.book.routed.toLocaleString('en'),
  )
  assert.equal(await row.locator('.ratio').innerText(), '100 %')
  assert.equal(await row.locator('td').nth(1).innerText(), '100 %')
  await page.getByLabel('target').selectOption('99')
  const allowed = Math.floor(book.book.delivered * 0.01).toLocaleString('en')
  assert.equal(
    await row.locator('td').nth(1).getAttribute('title'),
    `0 of ${allowed} records that may be lost`,
  )
  const recorded = page.locator('[aria-label=Windows] tr', { hasText: 'to copy' })
  assert.equal(await recorded.locator('td').count(), 5)
  for (const cell of await recorded.locator('td').all()) {
    assert.match(await cell.innerText(), /^100 %\s+budget 100 %$/)
    assert.match(await cell.getAttribute('title'), /received, \S+ delivered, 0 lost$/)
  }
  await page.locator('[aria-label=Windows] tr', { hasText: 'weir ran' }).waitFor()
  await page.getByLabel('Component').selectOption({ label: 'from intake' })
  await page.getByLabel('Window', { exact: true }).selectOption({ label: '1 hour' })
  await page.locator('[aria-label="Loss over rate"]').waitFor()
  await page.getByText('weir torture --for 60s').waitFor()
  await page.keyboard.press('g')
  await page.keyboard.press('c')
  await page.getByText('Time until buffers are full').waitFor()
  await page.locator('[aria-label=Buffers] tr', { hasText: 'copy' }).waitFor()
  const peak = page.locator('[aria-label=Planning] tr', { hasText: 'highest peak' })
  await peak.waitFor()
  assert.equal(await peak.locator('td').nth(1).innerText(), '–')
  await page.getByLabel('One machine takes').fill('0.5')
  const rate = Number.parseFloat(await peak.locator('td').first().innerText())
  assert.ok(rate > 0.5, 'several machines are needed')
  assert.equal(await peak.locator('td').nth(1).innerText(), `${Math.ceil(rate / 0.5)}`)
  assert.deepEqual(complaints, [])
  await close()
})

test('views and queries are kept by weir, over browsers and restarts', async () => {
  const first = await openPage(here.browser)
  await first.page.goto(`${here.server.address}/?q=status:error`)
  await first.page.getByRole('button', { name: 'Saved views and history' }).click()
  await first.page.getByLabel('Name of this view').fill('errors / "all"')
  await first.page.getByRole('button', { name: 'Save', exact: true }).click()
  await first.page.getByRole('button', { name: 'errors / "all"', exact: true }).waitFor()
  await first.close()
  await here.weir.stop()
  await here.weir.start()

  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/`)
  await page.getByRole('button', { name: 'Saved views and history' }).click()
  await page.locator('.history', { hasText: 'status:error' }).waitFor()
  await page.getByRole('button', { name: 'errors / "all"', exact: true }).click()
  await until(
    'the view is shown',
    () => new URL(page.url()).searchParams.get('q') === 'status:error',
  )
  await page.getByRole('button', { name: 'Saved views and history' }).click()
  await page.getByRole('button', { name: 'Delete errors / "all"' }).click()
  await until('it is gone', async () => {
    const kept = await (await fetch(`${here.weir.address}/weir/v1/views`)).json()
    return kept.views.length === 0 && kept.queries.includes('status:error')
  })
  assert.deepEqual(complaints, [])
  await close()
})

test('another site can neither read nor change what is kept', async () => {
  const views = `${here.weir.address}/weir/v1/views`
  const body = JSON.stringify({ search: '?q=a' })
  const put = (name, headers, text = body) =>
    fetch(`${views}/${name}`, { method: 'PUT', headers, body: text })
  const json = { 'content-type': 'application/json' }
  assert.equal((await put('a', { ...json, origin: 'http://evil.example' })).status, 403)
  assert.equal((await put('a', { 'content-type': 'text/plain' })).status, 415)
  assert.equal((await put('x'.repeat(81), json)).status, 400)
  assert.equal((await put('a', json, '{"search":"a"}')).status, 400)
  assert.equal((await put('a', json, '{"search":"?a","more":1}')).status, 400)
  assert.equal((await fetch(`${views}/nothing`, { method: 'DELETE' })).status, 404)
  assert.deepEqual((await (await fetch(views)).json()).views, [])
})
