// Signing in and out in a browser, with a real weir whose API requires a token.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { createRequire } from 'node:module'
import { after, test } from 'node:test'
import { inBatches, openPage, requests, stored, until, world } from './harness.mjs'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const token = 'operator-token-0123456789'
const readToken = 'reader-token-0123456789'
const developerToken = 'developer'
const application = '0f2ac2a1-2be4-4b3e-a4d8-4a4e1c0f8b11'
const sent = 50
const cloud = await standIn()
after(() => cloud.close())
const here = world(
  async (weir) => {
    await inBatches(weir, requests(sent))
    await weir.post([{ service: application, message: 'of the developer', status: 'info' }])
    await stored(weir, '', sent * 2 + 1)
  },
  { token, readToken, cloud: cloud.address },
)

/** Stands for UAA and the Cloud Controller, with one developer who has one application. */
async function standIn() {
  const server = http.createServer(async (request, response) => {
    let form = ''
    for await (const part of request) form += part
    const known = form === `token=${developerToken}`
    const isApps = request.url.startsWith('/v3/apps')
    const list = { pagination: { next: null }, resources: isApps ? [{ guid: application }] : [] }
    const isCheck = request.url === '/check_token'
    response.writeHead(isCheck && !known ? 400 : 200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isCheck ? { scope: ['openid'] } : list))
  })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    address: `http://127.0.0.1:${server.address().port}`,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

async function signIn(page, text) {
  await page.getByLabel('Token').fill(text)
  await page.getByRole('button', { name: 'Sign in' }).click()
}

async function seriousViolations(page) {
  await page.evaluate(axe)
  const { violations } = await page.evaluate(() => window.axe.run())
  const serious = violations.filter((one) => /serious|critical/.test(one.impact))
  return serious.map((one) => `${one.id}: ${one.nodes[0]?.html}`)
}

test('a reader signs in, goes on where they were, and signs out', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/?q=service%3Aapi`)
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  assert.equal(await page.locator('nav a.tab').count(), 0)
  assert.deepEqual(await seriousViolations(page), [])

  await signIn(page, 'wrong-token-0123456789')
  await page.getByRole('alert').filter({ hasText: 'The token is not valid' }).waitFor()
  assert.deepEqual(await seriousViolations(page), [])

  await signIn(page, readToken)
  await page.locator('.record-space .record').first().waitFor()
  assert.match(page.url(), /q=service%3Aapi/)
  const cookies = await page.context().cookies()
  assert.deepEqual(
    cookies.map(({ httpOnly, sameSite, path }) => ({ httpOnly, sameSite, path })),
    [{ httpOnly: true, sameSite: 'Strict', path: '/' }],
  )
  await page.reload()
  await page.locator('.record-space .record').first().waitFor()

  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  assert.deepEqual(await page.context().cookies(), [])
  assert.deepEqual(complaints, [])
  await close()
})

test('a session that ends asks to sign in again, in the dark', async () => {
  const options = { colorScheme: 'dark' }
  const { page, complaints, close } = await openPage(here.browser, options)
  await page.goto(`${here.server.address}/pipeline`)
  await signIn(page, token)
  await page.locator('.node').first().waitFor()
  await page.context().clearCookies()
  await page.getByRole('heading', { name: 'Sign in' }).waitFor()
  assert.deepEqual(await seriousViolations(page), [])
  await signIn(page, token)
  await page.locator('.node').first().waitFor()
  assert.match(page.url(), /pipeline$/)
  const { outputs, sources } = await here.weir.status()
  assert.ok(outputs.every(({ book }) => book.unaccounted_records === 0))
  assert.ok(sources.every(({ book }) => book.unaccounted_lines === 0))
  assert.deepEqual(complaints, [])
  await close()
})

test('a developer sees the records of their application, and the screens for them', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  const refused = []
  page.on('response', (one) => one.status() === 403 && refused.push(new URL(one.url()).pathname))
  await page.goto(`${here.server.address}/`)
  await signIn(page, developerToken)
  const records = page.locator('.record-space .record')
  await records.filter({ hasText: 'of the developer' }).waitFor()
  assert.equal(await records.count(), 1)
  assert.deepEqual(await page.locator('nav a.tab').allInnerTexts(), ['Explore', 'Live', 'Drains'])
  await page.keyboard.press('g')
  await page.keyboard.press('p')
  await page.getByRole('link', { name: 'Live' }).click()
  await page.waitForURL(/\/live/)
  const rows = page.getByText('live, of the developer')
  await until('rows come in once the tail is open', async () => {
    await here.weir.post([
      { service: 'web', message: 'of another', status: 'info' },
      { service: application, message: 'live, of the developer', status: 'info' },
    ])
    return (await rows.count()) > 0
  })
  assert.equal(await page.getByText('of another').count(), 0)
  await page.getByRole('link', { name: 'Drains' }).click()
  await page.getByText('Your applications have no drains').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Add a drain' }).count(), 0)
  assert.deepEqual(refused, [])
  await page.goto(`${here.server.address}/pipeline`)
  await page.getByRole('heading', { name: 'Your token does not permit this' }).waitFor()
  assert.deepEqual(await seriousViolations(page), [])
  assert.deepEqual(complaints, [])
  await close()
})
