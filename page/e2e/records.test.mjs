// Rows and their values: whatever their names and however long, they are filtered by, counted and
// copied exactly.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exploring, matched, parameter, stored, until, world } from './harness.mjs'

/** More than a number of JavaScript holds exactly. */
const id = '1234567890123456789'

const odd = {
  '@colon:key': ['v:1', '@colon\\:key:"v:1"'],
  '@with space': ['w', '@with\\ space:w'],
  '@back\\slash': ['b', '@back\\\\slash:b'],
  '@star*': ['s', '@star\\*:s'],
  '@trace': [id, `@trace:${id}`],
}

const here = world(async (weir) => {
  const now = Date.now()
  const own = Object.entries(odd).map(([name, [value]]) => [name.slice(1), value])
  const last = Object.fromEntries(own)
  // A number of that length is written by hand: as one of JavaScript it would be another.
  const text = JSON.stringify([
    { message: 'odd names', service: 'odd', timestamp: now, status: 'error', ...last },
  ]).replace(`"${id}"`, id)
  const sent = { method: 'POST', headers: { 'content-type': 'application/json' }, body: text }
  assert.ok((await fetch(`http://${weir.intake}/api/v2/logs`, sent)).ok)
  const others = Array.from({ length: 300 }, (_, at) => ({
    message: at % 2 ? `plain ${at}` : `two\nlines ${at}`,
    service: 'plain',
    status: at % 100 === 50 ? 'error' : 'info',
    timestamp: now - 1_000 * (at + 1),
  }))
  await weir.post(others)
  await stored(weir, '', 301)
})

const withPage = exploring(here)

test('any field is filtered by from the list of fields, and from the record', async () => {
  for (const [name, [value, term]] of Object.entries(odd)) {
    await withPage('/?q=service:odd', async (page) => {
      const facet = page.locator('.facet').filter({
        has: page.getByRole('button', { name: `Actions for ${name}`, exact: true }),
      })
      await facet.locator('.facet-name').click()
      assert.equal(await facet.locator('.value-text').first().innerText(), value)
      await facet.locator('.value-name').first().click()
      await until(`${name} is asked for`, () => parameter(page, 'q') === `service:odd ${term}`)
      await page.locator('.record-space .record', { hasText: 'odd names' }).waitFor()
      await page.goto(`${here.server.address}/?q=service:odd`)
      await page.locator('.record-space .record').first().click()
      await page.getByRole('button', { name: `Hide ${name} ${value}`, exact: true }).click()
      await until(`${name} is left out`, () => parameter(page, 'q') === `service:odd -${term}`)
    })
  }
})

test('an ID of 64 bits is shown, copied and grouped by with all its digits', () =>
  withPage('/?q=service:odd', async (page) => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    await page.locator('.record-space .record').first().click()
    await page.locator('.field-value', { hasText: id }).waitFor()
    await page.getByRole('tab', { name: 'JSON' }).click()
    await page.locator('.json-plain', { hasText: id }).waitFor()
    await page.getByRole('button', { name: 'Copy', exact: true }).click()
    const copied = await page.evaluate(() => navigator.clipboard.readText())
    assert.match(copied, new RegExp(`"trace": ${id}`))
    await page.goto(`${here.server.address}/?q=service:odd&view=groups&group=@trace`)
    await page.locator('.top-name button', { hasText: id }).click()
    await until('the ID is asked for', () => parameter(page, 'q') === `service:odd @trace:${id}`)
  }))

test('groups and columns of a field with any name have its values', () =>
  withPage('/?cols=@colon:key,message', async (page) => {
    await page.locator('.record-space .cell', { hasText: 'v:1' }).waitFor()
    await page.goto(`${here.server.address}/?view=groups&group=@with%20space`)
    await page.locator('.top-name', { hasText: 'w' }).waitFor()
    await page.getByRole('button', { name: 'Over time' }).click()
    await page.locator('.legend', { hasText: 'w' }).last().waitFor()
  }))

test('the number of records is that of the query while the histogram is hidden', () =>
  withPage('/', async (page) => {
    assert.equal(await matched(page), '301')
    await page.getByRole('button', { name: 'Show the histogram' }).click()
    await page.locator('.value-name', { hasText: 'error' }).click()
    await until('errors are counted', async () => (await matched(page)) === '4')
    await page.getByRole('button', { name: 'Show the fields' }).click()
    await page.goto(`${here.server.address}/?q=service:plain`)
    await until('nothing counts all', async () => (await matched(page)) === '200+')
  }))

test('selected rows are copied as one line each', () =>
  withPage('/?q=service:plain', async (page) => {
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write'])
    const rows = page.locator('.record-space .record')
    const [from, to] = [await rows.nth(0).boundingBox(), await rows.nth(2).boundingBox()]
    await page.mouse.move(from.x + 40, from.y + 8)
    await page.mouse.down()
    await page.mouse.move(to.x + 500, to.y + 12, { steps: 5 })
    await page.mouse.up()
    await page.keyboard.press('Control+c')
    const lines = (await page.evaluate(() => navigator.clipboard.readText())).split('\n')
    const ends = lines.map((line) => line.replace(/^\S+ info plain /, ''))
    assert.deepEqual(ends, ['two\\nlines 0', 'plain 1', 'two\\nlines 2'])
  }))

test('a row has a menu, by key and by mouse, and the focus comes back to the list', () =>
  withPage('/', async (page) => {
    await page.locator('.records').focus()
    for (const key of ['ArrowDown', 'Shift+F10']) await page.keyboard.press(key)
    const menu = page.getByRole('menu', { name: 'Record' })
    await menu.getByRole('menuitem', { name: 'Show its context' }).waitFor()
    await page.keyboard.press('Escape')
    await menu.waitFor({ state: 'detached' })
    assert.ok(await page.locator('.records').evaluate((list) => list === document.activeElement))
    await page.keyboard.press('.')
    await menu.getByRole('menuitem', { name: 'Show only its service' }).click()
    await until('only its service is shown', () => parameter(page, 'q') === 'service:odd')
    await page.locator('.record-space .message').first().click({ button: 'right' })
    await menu.getByRole('menuitem', { name: 'Open the record' }).click()
    await page.locator('.drawer', { hasText: 'odd names' }).waitFor()
  }))

test('errors are walked by key', () =>
  withPage('/', async (page) => {
    for (const key of ['e', 'e']) await page.keyboard.press(key)
    await page.locator('.record.selected', { hasText: 'lines 50' }).waitFor()
    await page.keyboard.press('E')
    await page.locator('.record.selected', { hasText: 'odd names' }).waitFor()
    await page.keyboard.press('E')
    await page.locator('.toast', { hasText: 'No earlier error' }).waitFor()
  }))
