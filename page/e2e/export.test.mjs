// Exports in a browser: their progress, cancelling them, and that an interrupted one is never taken
// for complete.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import http from 'node:http'
import { test } from 'node:test'
import { inBatches, openPage, requests, serve, stored, until, world } from './harness.mjs'

const sent = 500
const here = world(async (weir) => {
  await inBatches(weir, requests(sent))
  await stored(weir, '', sent * 2)
})

async function exported(page, label) {
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Export and share' }).click()
  await page.getByRole('menuitem', { name: label }).click()
  const found = await download
  return { name: found.suggestedFilename(), bytes: await readFile(await found.path()) }
}

test('what is saved is what matches, in every format', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/?q=service:api`)
  await page.locator('.record-space .record').first().waitFor()
  await until(
    'the count is there',
    async () => (await page.locator('.summary strong').innerText()) === `${sent}`,
  )
  const lines = await exported(page, 'NDJSON')
  assert.match(lines.name, /^weir-\d{4}-\d\d-\d\dT\d{6}\.ndjson$/)
  const records = lines.bytes.toString().trim().split('\n').map(JSON.parse)
  assert.equal(records.length, sent)
  assert.ok(records.every((record) => record.attributes.service === 'api'))
  await page.locator('.export-panel', { hasText: `500 records of ${sent}` }).waitFor()

  const text = await exported(page, 'Text, a line each')
  assert.match(text.name, /\.log$/)
  const written = text.bytes.toString().trim().split('\n')
  assert.equal(written.length, sent)
  assert.match(written[0], /^20\S+Z info api-1 api handled order \d+$/)

  const table = await exported(page, 'CSV with these columns')
  const [head, ...rows] = table.bytes.toString().trim().split(/\r?\n/)
  assert.equal(head, 'timestamp,host,status,service,message')
  assert.equal(rows.length, sent)

  const { bytes } = await exported(page, /^Parquet/)
  assert.equal(bytes.subarray(0, 4).toString(), 'PAR1')
  await page.locator('.export-panel', { hasText: 'Saved' }).waitFor()
  assert.deepEqual(complaints, [])
  await close()
})

/** Stands between the page and weir, and answers exports by itself. */
async function between(answerExport) {
  const server = http.createServer((request, response) => {
    if (request.url?.startsWith('/weir/v1/export')) return answerExport(response)
    const { method, headers, url } = request
    const asked = http.request(new URL(url, here.weir.address), { method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers)
      answer.pipe(response)
    })
    asked.on('error', () => response.destroy())
    request.pipe(asked)
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const page = await serve(`http://127.0.0.1:${server.address().port}`)
  return {
    address: page.address,
    close: async () => {
      await page.close()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const oneRecord = '{"id":"1"}\n'

test('an export that is cut says so, and saves what came only when asked to', async () => {
  let cut = () => undefined
  const cutting = await between((response) => {
    cut = () => response.destroy()
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    response.write(oneRecord)
  })
  const { page, close } = await openPage(here.browser)
  let downloads = 0
  page.on('download', () => {
    downloads += 1
  })
  await page.goto(cutting.address)
  await page.getByRole('button', { name: 'Export and share' }).click()
  await page.getByRole('menuitem', { name: 'NDJSON' }).click()
  await page.locator('.export-panel', { hasText: '1 record' }).waitFor()
  cut()
  await page.locator('.export-panel [role=alert]', { hasText: 'records are missing' }).waitFor()
  assert.equal(downloads, 0)
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Save the incomplete file' }).click()
  const found = await download
  assert.match(found.suggestedFilename(), /^incomplete-weir-/)
  assert.equal((await readFile(await found.path())).toString(), oneRecord)
  await close()
  await cutting.close()
})

test('an export is followed, and stops at once when it is cancelled', async () => {
  let isClosed = false
  const slow = await between((response) => {
    response.on('close', () => {
      isClosed = true
    })
    response.writeHead(200, { 'content-type': 'application/x-ndjson' })
    response.write(oneRecord.repeat(100))
  })
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(slow.address)
  await page.locator('.record-space .record').first().waitFor()
  await page.getByRole('button', { name: 'Export and share' }).click()
  await page.getByRole('menuitem', { name: 'NDJSON' }).click()
  await page.locator('.export-panel', { hasText: '100 records' }).waitFor()
  await page.locator('.export-panel progress').waitFor()
  assert.equal(isClosed, false)
  await page.getByRole('button', { name: 'Cancel', exact: true }).click()
  await page.locator('.export-panel').waitFor({ state: 'detached' })
  await until('weir is no longer asked', () => isClosed)
  assert.deepEqual(complaints, [])
  await close()
  await slow.close()
})
