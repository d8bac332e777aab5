// A weir without a store and without drains: what the page shows, and what it says about the rest.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openPage, until, world } from './harness.mjs'

const here = world(async () => undefined, { store: false })
const records = (count) => Array.from({ length: count }, (_, at) => ({ message: `number ${at}` }))

test('Explore says that nothing is stored, and the live tail works', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(here.server.address)
  await page.locator('.state', { hasText: 'Only stored records can be searched' }).waitFor()
  await page.getByRole('navigation', { name: 'Screens' }).getByText('Live').click()
  await page.locator('.rate', { hasText: /^\s*live/ }).waitFor()
  await here.weir.post(records(5))
  await page.locator('.live-row', { hasText: 'number 4' }).waitFor()
  assert.deepEqual(complaints, [])
  await close()
})

test('the planning table knows the rates from the readings of the books', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  const planning = page.locator('[aria-label=Planning]')
  const peak = planning.locator('tr', { hasText: 'highest peak' })
  await until(
    'there are readings to speak of',
    async () => {
      await here.weir.post(records(1_000))
      await page.goto(`${here.server.address}/capacity`)
      await planning.locator('tr, .panel-note').first().waitFor()
      return (await peak.count()) > 0 && !/\s0\/s/.test(await peak.innerText())
    },
    30_000,
  )
  await page.getByLabel('One machine takes').fill('1')
  const machines = await peak.locator('td').nth(1).innerText()
  assert.ok(Number(machines) > 1, `${machines} machines`)
  await planning.getByText(/^received in .* by the minute/).waitFor()
  assert.deepEqual(complaints, [])
  await close()
})

test('where drains are off, it is said how to turn them on', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/drains`)
  await page.getByRole('heading', { name: 'Drains are off' }).waitFor()
  await page.getByText('[drains]').waitFor()
  assert.equal(await page.getByRole('button', { name: 'Add a drain' }).count(), 0)
  assert.deepEqual(complaints, [])
  await close()
})
