// Signing in and out in a browser, before a real weir whose API requires a token.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { inBatches, openPage, requests, stored, world } from './harness.mjs'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const token = 'operator-token-0123456789'
const readToken = 'reader-token-0123456789'
const sent = 50
const here = world(
  async (weir) => {
    await inBatches(weir, requests(sent))
    await stored(weir, '', sent * 2)
  },
  { token, readToken },
)

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
