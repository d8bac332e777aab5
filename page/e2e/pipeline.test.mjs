// Back pressure: an output stops accepting records and resumes, and an open page shows which source
// it blocks, and when that ends.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { openPage, until, world } from './harness.mjs'

const folder = mkdtempSync(path.join(tmpdir(), 'weir-follow-'))
const collector = await startCollector()
const here = world(undefined, { follow: folder, collector: collector.url })
after(() => {
  collector.close()
  rmSync(folder, { recursive: true, force: true })
})

/** A destination that refuses or accepts every request. */
async function startCollector() {
  const found = { accepts: true, url: '', close: () => server.close() }
  const server = http.createServer((request, response) => {
    request.resume().on('end', () => {
      response.statusCode = found.accepts ? 200 : 503
      response.end()
    })
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  found.url = `http://127.0.0.1:${server.address().port}/`
  return found
}

test('the source that a full output blocks is marked, without a reload', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  const answers = []
  page.on('response', (one) => answers.push(new URL(one.url()).pathname))
  await page.goto(`${here.server.address}/pipeline`)
  const [shop, intake] = ['shop', 'intake'].map((name) =>
    page.locator('.node', { has: page.locator('strong', { hasText: name }) }),
  )
  await shop.getByText('reading').waitFor()
  await page.getByText('no back pressure').waitFor()

  collector.accepts = false
  const lines = 20_000
  writeFileSync(`${folder}/shop.log`, `${'a line of a shop '.repeat(60)}\n`.repeat(lines))
  await shop.getByText('blocked by collector').waitFor()
  await page.locator('.badge.bad', { hasText: 'collector is full and blocks shop' }).waitFor()
  await page.locator('.node.bad', { hasText: 'full: blocking its sources' }).waitFor()
  assert.equal(await intake.getByText('reading').count(), 1)
  // Of the two sources one is blocked; from there the way leads over rules and journal to the output.
  assert.equal(await page.locator('.edge.blocked').count(), 3)
  await shop.click()
  await page.locator('aside.drawer', { hasText: 'blocked by collector' }).waitFor()

  collector.accepts = true
  await shop.getByText('reading').waitFor({ timeout: 20_000 })
  await page.getByText('no back pressure').waitFor()
  await until(
    'everything has arrived, and the books balance',
    async () => {
      const { outputs, sources } = await here.weir.status()
      const { book } = outputs.find((one) => one.book.name === 'collector')
      const unaccounted = sources.map((one) => one.book.unaccounted_lines)
      return (
        book.book.delivered === lines &&
        [...unaccounted, book.unaccounted_records].every((one) => one === 0)
      )
    },
    30_000,
  )
  const streams = answers.filter((one) => one === '/weir/v1/topology/stream')
  assert.equal(streams.length, 1, 'one stream has told all of it')
  assert.ok(!answers.includes('/weir/v1/topology'), 'no snapshot was asked for')
  assert.ok(!answers.includes('/weir/v1/status'), 'books and figures are in the stream')
  assert.deepEqual(complaints, [])
  await close()
})

test('the rate in the bar at the top is that of the pipeline', async () => {
  const { page, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/pipeline`)
  const figures = () =>
    page.evaluate(() => [
      document.querySelector('.pulse strong')?.textContent ?? '',
      document.querySelector('.figure strong')?.textContent ?? '',
    ])
  const timer = setInterval(() => here.weir.post([{ message: 'a' }, { message: 'b' }]), 100)
  try {
    await until('there is a rate', async () => /^[1-9]/.test((await figures())[1]))
    for (let look = 0; look < 20; look += 1) {
      const [top, pipeline] = await figures()
      assert.equal(top, pipeline)
      await page.waitForTimeout(100)
    }
  } finally {
    clearInterval(timer)
  }
  await close()
})

test('without the stream the pipeline is asked for again and again', async () => {
  const { page, close } = await openPage(here.browser)
  await page.route('**/weir/v1/topology/stream', (route) => route.abort())
  const snapshots = []
  page.on('response', (one) => one.url().endsWith('/topology') && snapshots.push(one.status()))
  await page.goto(`${here.server.address}/pipeline`)
  await page.locator('.node', { hasText: 'shop' }).waitFor()
  await until('a second snapshot', () => snapshots.length > 1)
  await close()
})

/**
 * As many streams as weir serves, and a function that ends them. Their answers are part of what is
 * returned: Node closes the connection of an answer that nothing refers to when it collects garbage.
 */
async function allStreams() {
  const abort = new AbortController()
  const address = `${here.weir.address}/weir/v1/topology/stream`
  const one = () => fetch(address, { signal: abort.signal })
  const opened = []
  for (let answer = await one(); answer.ok; answer = await one()) opened.push(answer)
  return { opened, end: () => abort.abort() }
}

test('a window beyond the last stream asks each second instead, until a stream is free', async () => {
  const streams = await allStreams()
  assert.equal(streams.opened.length, 64)
  const { page, complaints, close } = await openPage(here.browser)
  const asked = { snapshots: 0, streams: 0 }
  page.on('response', (one) => {
    const { pathname } = new URL(one.url())
    if (pathname === '/weir/v1/topology') asked.snapshots += 1
    if (pathname === '/weir/v1/topology/stream' && one.ok()) asked.streams += 1
  })
  await page.goto(`${here.server.address}/pipeline`)
  await page.locator('.topology .node').nth(2).waitFor()
  const { sources } = await here.weir.status()
  const before = sources.find(({ book }) => book.name === 'intake').book.book.lines
  await here.weir.post([{ message: 'seen by all windows', service: 'web' }])
  const cell = page.locator('[aria-label=Ledger] tr', { hasText: 'intake' }).locator('td').first()
  await until('the record is in the books that it shows', async () => {
    const lines = Number((await cell.getAttribute('title')).replaceAll(',', ''))
    return lines > before
  })
  assert.ok(asked.snapshots > 0 && asked.streams === 0, JSON.stringify(asked))
  assert.equal(await page.getByText('weir is not responding.').count(), 0)
  streams.end()
  await until('it follows a stream', () => asked.streams > 0)
  const last = asked.snapshots
  await here.weir.post([{ message: 'seen again', service: 'web' }])
  await until('the stream tells it', async () => {
    const lines = Number((await cell.getAttribute('title')).replaceAll(',', ''))
    return lines > before + 1
  })
  assert.equal(asked.snapshots, last, 'nothing is asked for any more')
  assert.deepEqual(complaints, [])
  await close()
})
