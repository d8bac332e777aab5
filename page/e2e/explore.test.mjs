// Explore, as a newcomer and a keyboard user would use it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  exploring,
  inBatches,
  matched,
  parameter,
  requests,
  stored,
  until,
  world,
} from './harness.mjs'

const here = world(async (weir) => {
  const records = requests(1_000)
  await inBatches(weir, records)
  await stored(weir, '', records.length)
})

const withPage = exploring(here)

const rowTexts = (page) => page.locator('.record-space .record .message').allInnerTexts()

test('a newcomer sees records, finds an error by clicking, and opens its trace', () =>
  withPage('/', async (page) => {
    assert.equal(await matched(page), '2.1k')
    await page
      .locator('.facet', { hasText: 'status' })
      .locator('.value-name', { hasText: 'error' })
      .click()
    await until('only errors are shown', async () => (await matched(page)) === '200')
    assert.equal(parameter(page, 'q'), 'status:error')
    await page.locator('.value-name', { hasText: 'payment gate' }).click()
    await until(
      'the value is quoted',
      () => parameter(page, 'q') === 'status:error service:"payment gate"',
    )
    await until('only payments are shown', async () => (await matched(page)) === '100')
    await page.locator('.record-space .record').first().click()
    await page.getByRole('tab', { name: 'Trace' }).click()
    await page.locator('.waterfall-row').nth(2).waitFor()
    assert.equal(await page.locator('.waterfall-row').count(), 3)
    const names = await page.locator('.waterfall-service').allInnerTexts()
    assert.deepEqual([...names].sort(), ['api', 'payment gate', 'web'])
    await page.getByRole('tab', { name: 'Context' }).click()
    await page.locator('.record-line[aria-current=true]').waitFor()
    await page.getByRole('tab', { name: 'Path' }).click()
    await page.getByText('Received by intake').waitFor()
    await page.locator('.hop', { hasText: 'store (store)' }).getByText('Stored.').waitFor()
    const hops = await page.locator('.hop').allInnerTexts()
    assert.match(hops[0], /^Written\s+\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}/)
    assert.match(hops[1], /\S+ \S+ after it was written/)
    assert.match(hops[2], /^Journal\s+\d{4}-.* of its batch\s+\S+ \S+ after it was received/)
    const copy = hops.find((text) => text.startsWith('copy (file)'))
    assert.match(copy, /\S+ \S+ after it was in the journal\s+(Delivered|Settled)/)
  }))

test('other values of a filtered field keep their counts', () =>
  withPage('/?q=service:web', async (page) => {
    const facet = page.locator('.facet', { hasText: /^service/ })
    await facet.locator('.value.included', { hasText: 'web' }).waitFor()
    assert.match(await facet.innerText(), /api\s+1k/)
  }))

test('a link opened elsewhere shows the same', () =>
  withPage('/?q=status:error&cols=host,message&sort=timestamp', async (page) => {
    const first = await rowTexts(page)
    await withPage(page.url().slice(here.server.address.length), async (other) => {
      assert.deepEqual((await rowTexts(other)).slice(0, 10), first.slice(0, 10))
      assert.deepEqual(await other.locator('.record-head .head-name.grow').allInnerTexts(), [
        'host',
        'message',
      ])
    })
  }))

test('a link with a range that is not valid shows the usual one', () =>
  withPage('/?from=abc&to=now-20y', async (page) => {
    assert.equal(await page.locator('.time-label').innerText(), 'Last 15 minutes')
    assert.equal(await matched(page), '2.1k')
  }))

test('brushing the histogram zooms, and there is a way back', () =>
  withPage('/?from=now-15m', async (page) => {
    const plot = page.locator('.histogram .u-over')
    let box = null
    await until('the histogram is drawn', async () => {
      box = await plot.boundingBox()
      return box !== null
    })
    await page.mouse.move(box.x + box.width * 0.4, box.y + 20)
    await page.mouse.down()
    await page.mouse.move(box.x + box.width * 0.6, box.y + 30, { steps: 5 })
    await page.mouse.up()
    await until('the range is absolute', () => /^20/.test(parameter(page, 'from') ?? ''))
    await until('fewer match', async () => (await matched(page)) !== '2.1k')
    await page.keyboard.press('z')
    await until('the range is the one before', () => parameter(page, 'from') === 'now-15m')
    await page.goBack()
    await until('the browser goes back as well', () => /^20/.test(parameter(page, 'from') ?? ''))
  }))

test('everything works without a mouse', () =>
  withPage('/', async (page) => {
    await page.locator('.query-editor .cm-content').waitFor()
    await page.keyboard.press('/')
    await page.keyboard.type('status:error')
    await page.keyboard.press('Enter')
    await until('the query is asked', () => parameter(page, 'q') === 'status:error')
    // A row that is chosen before is one of the answer before.
    await page.locator('.records[aria-busy=false]').waitFor()
    await page.keyboard.press('Escape')
    for (const key of ['j', 'j', 'o']) await page.keyboard.press(key)
    await page.locator('.drawer').waitFor()
    const opened = parameter(page, 'row')
    await page.keyboard.press('j')
    await until('the next record is open', () => parameter(page, 'row') !== opened)
    await page.keyboard.press('x')
    await page.locator('.record-lines').waitFor()
    await page.keyboard.press('Escape')
    await until('it is closed', () => !parameter(page, 'row'))
    await page.keyboard.press('?')
    await page.locator('dialog[open]').getByText('next record').waitFor()
    await page.keyboard.press('Escape')
    await page.keyboard.press('g')
    await page.keyboard.press('l')
    await page.locator('.live').waitFor()
    assert.equal(parameter(page, 'q'), 'status:error')
  }))

test('an open record keeps its keys when another query does not find it', () =>
  withPage('/?q=service:api', async (page) => {
    for (const key of ['j', 'o']) await page.keyboard.press(key)
    await page.locator('.drawer', { hasText: 'handled order' }).waitFor()
    await page.getByRole('button', { name: 'Hide api', exact: true }).click()
    await page.locator('.record-space .message', { hasText: 'GET /orders' }).first().waitFor()
    await page.keyboard.press('x')
    await page.locator('.record-line[aria-current=true]', { hasText: 'handled order' }).waitFor()
  }))

test('a value of a row is chosen and filtered by without a mouse', () =>
  withPage('/?cols=service,host,message', async (page) => {
    await page.locator('.records').focus()
    for (const key of ['ArrowDown', 'ArrowRight', 'ArrowRight']) await page.keyboard.press(key)
    const cell = page.locator('.record.selected .cursor')
    const host = await cell.innerText()
    const active = await page.locator('.records').getAttribute('aria-activedescendant')
    assert.equal(active, await cell.getAttribute('id'))
    await page.keyboard.press('f')
    await until('only that host is shown', () => parameter(page, 'q') === `host:${host}`)
    await page.keyboard.press('F')
    await until('all others are shown', () => parameter(page, 'q') === `-host:${host}`)
  }))

test('the keyboard goes into a record and back to its row', () =>
  withPage('/', async (page) => {
    for (const key of ['j', 'j', 'o', 'i']) await page.keyboard.press(key)
    assert.equal(await page.evaluate(() => document.activeElement.textContent), 'Fields')
    await page.keyboard.press('ArrowRight')
    const fold = page.locator('.json-fold').first()
    await fold.waitFor()
    await fold.press('Enter')
    assert.equal(await fold.getAttribute('aria-expanded'), 'false')
    await page.keyboard.press('Escape')
    await page.locator('.drawer').waitFor({ state: 'detached' })
    assert.equal(await page.evaluate(() => document.activeElement.getAttribute('role')), 'grid')
  }))

test('what refreshes by itself waits while somebody reads, and keeps to the open record', () =>
  withPage('/', async (page) => {
    await page.evaluate(() => localStorage.setItem('weir.refresh', '"5"'))
    await page.goto(`${here.server.address}/?q=late`)
    await page.locator('.state', { hasText: 'No record matches' }).waitFor()
    const late = (at) => ({ message: `late ${at}`, service: 'clock', status: 'info' })
    await here.weir.post([late(1)])
    await page.locator('.record', { hasText: 'late 1' }).waitFor({ timeout: 15_000 })
    await page.locator('.record', { hasText: 'late 1' }).click()
    await page.locator('.summary', { hasText: 'refresh waits' }).waitFor()
    await here.weir.post([late(2)])
    await stored(here.weir, 'service:clock', 2)
    await page.keyboard.press('r')
    await page.locator('.record', { hasText: 'late 2' }).waitFor()
    await until('the row of the open record is marked', async () =>
      /late 1/.test(await page.locator('.record.selected').innerText()),
    )
  }))

test('what a button has opened is closed by Escape, and by the button', () =>
  withPage('/?from=now-15m', async (page) => {
    const open = page.locator('.popover:popover-open, .menu:popover-open')
    for (const title of ['Range of time', 'Export and share', 'Theme']) {
      const button = page.locator(`button[title="${title}"]`)
      await button.click()
      await open.waitFor()
      await page.keyboard.press('Escape')
      await open.waitFor({ state: 'detached' })
      await button.click()
      await open.waitFor()
      await button.click()
      await open.waitFor({ state: 'detached' })
    }
  }))

test('a record is copied where the browser has no clipboard, as on a page without TLS', () =>
  withPage('/?from=now-15m', async (page) => {
    await page.evaluate(() => {
      Object.defineProperty(navigator, 'clipboard', { value: undefined })
      document.addEventListener('copy', () => {
        window.copied = document.activeElement.value
      })
    })
    const message = page.locator('.record-space .record .message').first()
    const text = await message.innerText()
    await message.click()
    await page.getByRole('button', { name: 'Copy the message' }).click()
    await page.locator('.toast', { hasText: 'Copied the message' }).waitFor()
    assert.equal(await page.evaluate(() => window.copied), text)
  }))

test('the length of a bar can be chosen', () =>
  withPage('/?from=now-15m', async (page) => {
    await page.getByLabel('Length of a bar').selectOption('1m')
    await until('it stands in the address', () => parameter(page, 'bar') === '1m')
    await page.getByRole('button', { name: 'Show as a table' }).click()
    const rows = page.locator('.histogram tbody tr')
    await until('a bar is a minute', async () => {
      const count = await rows.count()
      return count >= 15 && count <= 16
    })
  }))

test('completion knows fields and values, and quotes by itself', () =>
  withPage('/', async (page) => {
    const editor = page.locator('.query-editor .cm-content')
    await editor.waitFor()
    await editor.click()
    await page.keyboard.type('serv')
    // The list of what was typed before stays, but takes no keys, until the next one is there.
    const options = page.locator(
      '.cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled) li',
    )
    await options.filter({ hasText: 'service' }).first().waitFor()
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Enter')
    await options.filter({ hasText: 'payment gate' }).first().waitFor()
    await page.keyboard.type('pay')
    await until('values are narrowed', async () => (await options.count()) === 1)
    await page.keyboard.press('ArrowDown')
    await page.keyboard.press('Tab')
    assert.equal((await editor.innerText()).trim(), 'service:"payment gate"')
  }))

test('recent queries are offered in an empty query, and units for a number to compare with', () =>
  withPage('/?q=service:web+status:error', async (page) => {
    await page.locator('.value-name', { hasText: 'web' }).first().waitFor()
    const editor = page.locator('.query-editor .cm-content')
    await editor.click()
    for (const key of ['Control+a', 'Backspace', 'ArrowDown']) await page.keyboard.press(key)
    const options = page.locator(
      '.cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled) li',
    )
    await options.filter({ hasText: 'service:web status:error' }).click()
    assert.equal((await editor.innerText()).trim(), 'service:web status:error')
    await page.keyboard.type(' @request_time_ms:>30')
    await options.filter({ hasText: '30ms' }).click()
    await page.keyboard.press('Enter')
    const asked = 'service:web status:error @request_time_ms:>30ms'
    await until('the unit is asked for', () => parameter(page, 'q') === asked)
    // What the browser would set as a style is refused, and would be a complaint.
    await editor.click()
    await page.keyboard.press('Control+a')
    await page.keyboard.type('serv')
    await options.filter({ hasText: 'service' }).first().waitFor()
    assert.equal((await editor.innerText()).trim(), 'serv')
  }))

test('brackets of a suggestion are closed, and what is suggested for an error can be asked', () =>
  withPage('/', async (page) => {
    const editor = page.locator('.query-editor .cm-content')
    await editor.click()
    await page.keyboard.type('service:')
    const options = page.locator(
      '.cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled) li',
    )
    await options.filter({ hasText: '(a OR b)' }).click()
    await page.keyboard.type('web')
    assert.equal((await editor.innerText()).trim(), 'service:(web)')
    await page.goto(`${here.server.address}/?q=${encodeURIComponent('service:( @dur:>')}`)
    await page.getByRole('button', { name: 'Use service:( "@dur:>")' }).click()
    await page.locator('.state', { hasText: 'No record matches' }).waitFor()
  }))

test('an error is underlined where it is, and said in words', () =>
  withPage('/', async (page) => {
    const editor = page.locator('.query-editor .cm-content')
    await editor.click()
    await page.keyboard.type('status:error )')
    await page.keyboard.press('Enter')
    await page.locator('.state', { hasText: 'parenthesis' }).waitFor()
    await page.locator('.cm-lintRange-error').waitFor()
    assert.equal(await page.locator('.cm-lintRange-error').innerText(), ')')
  }))

test('columns are chosen, resized and kept in the address', () =>
  withPage('/', async (page) => {
    await page.getByRole('button', { name: 'Columns', exact: true }).click()
    await page.locator('.column-choice label', { hasText: /^host$/ }).click()
    await until(
      'the column is in the address',
      () => parameter(page, 'cols') === 'service,host,message',
    )
    await page.keyboard.press('Escape')
    const resizer = page.getByRole('separator', { name: 'Width of service' })
    await resizer.focus()
    const before = await resizer.getAttribute('aria-valuenow')
    await page.keyboard.press('ArrowRight')
    assert.equal(Number(await resizer.getAttribute('aria-valuenow')), Number(before) + 16)
  }))

test('patterns, groups and latency answer the same question', () =>
  withPage('/?q=service:web', async (page) => {
    await page.getByRole('tab', { name: 'Patterns' }).click()
    await page.locator('.pattern', { hasText: 'GET' }).first().waitFor()
    await page.locator('.pattern-text', { hasText: 'GET' }).first().click()
    await page.getByRole('img', { name: 'Records with these words over time' }).waitFor()
    await page.locator('.pattern-example', { hasText: 'GET /orders/' }).first().waitFor()
    await page.getByRole('tab', { name: 'Groups' }).click()
    await page.locator('.top-list').waitFor()
    await page.getByRole('button', { name: 'Over time' }).click()
    await page.locator('.group-lines canvas').waitFor()
    await page.getByRole('tab', { name: 'Latency' }).click()
    await page.locator('.heat canvas').waitFor()
    await page.locator('.outlier-name').first().waitFor()
    await page.getByRole('button', { name: 'Show both' }).click()
    await page.locator('.verdict').waitFor()
    assert.match(await page.locator('.verdict').innerText(), /% of the time is queueing delay/)
    await page.locator('[aria-label="Heat map"][aria-busy=false]').waitFor()
    await page.locator('.heat').focus()
    for (const key of ['ArrowRight', 'ArrowUp', 'Enter']) await page.keyboard.press(key)
    await page.locator('.cell-records').waitFor()
    await page.getByLabel('Number of workers').fill('1000')
    await page.keyboard.press('Enter')
    await page.locator('.latency-summary', { hasText: 'utilization' }).waitFor()
    assert.equal(parameter(page, 'workers'), '1000')
    for (const name of ['Heat map', 'Percentiles over time', 'Service time and queueing delay']) {
      const panel = page.locator(`.panel[aria-label="${name}"]`)
      await panel.getByRole('button', { name: 'Show as a table' }).click()
      await panel.locator('.chart-table tbody tr').first().waitFor()
    }
  }))

test('a saved view comes back', () =>
  withPage('/?q=status:error', async (page) => {
    await page.getByRole('button', { name: 'Saved views and history' }).click()
    await page.getByLabel('Name of this view').fill('errors')
    await page.keyboard.press('Enter')
    await page.goto(`${here.server.address}/`)
    await page.getByRole('button', { name: 'Saved views and history' }).click()
    await page.getByRole('button', { name: 'errors', exact: true }).click()
    await until('the query is that of the view', () => parameter(page, 'q') === 'status:error')
  }))

/** The screens by what is there once they are drawn. */
const drawn = {
  '/': '.record-space .record',
  '/live': '.live .rate',
  '/pipeline': '.node',
  '/drains': '.panel',
  '/reliability': '.figure',
  '/capacity': '.figure',
  '/?view=latency': '.heat canvas',
  '/?view=groups': '.top-list',
  '/?view=patterns': '.pattern',
}

for (const width of [390, 320]) {
  test(`in a window of ${width} pixels nothing is wider than it`, () =>
    withPage(
      '/',
      async (page) => {
        for (const [path, sign] of Object.entries(drawn)) {
          await page.goto(here.server.address + path)
          await page.locator(sign).first().waitFor()
          const wide = await page.evaluate(
            () => document.documentElement.scrollWidth - window.innerWidth,
          )
          assert.ok(wide <= 0, `${path} is ${wide} px too wide`)
        }
      },
      { viewport: { width, height: 844 } },
    ))
}

test('on a phone, fields cover the records until they are found', () =>
  withPage(
    '/',
    async (page) => {
      await page.getByRole('button', { name: 'Show the fields' }).click()
      await page.locator('.value-name', { hasText: 'payment gate' }).click()
      await page.getByRole('button', { name: 'Show 100 records' }).click()
      await page.locator('.facets-box').waitFor({ state: 'detached' })
      assert.equal(await matched(page), '100')
      await page.getByRole('button', { name: 'Show the fields' }).click()
      await page.reload()
      await page.locator('.record-space .record').first().waitFor()
      assert.equal(await page.locator('.facets-box').count(), 0, 'they do not cover a new page')
    },
    { viewport: { width: 390, height: 844 } },
  ))

test('a phone shows which service a record is of, a tablet all columns', async () => {
  const cells = (page) => page.locator('.record-space .record').first().locator('.cell:visible')
  await withPage('/?q=status:error', async (page) => assert.equal(await cells(page).count(), 4), {
    viewport: { width: 390, height: 844 },
  })
  const tablet = { viewport: { width: 720, height: 450 } }
  await withPage(
    '/?q=status:error&cols=service,host,message',
    async (page) => {
      assert.equal(await cells(page).count(), 5)
      await page.locator('.record-head', { hasText: 'host' }).waitFor()
    },
    tablet,
  )
})

test('a time as syslog writes it can be pasted', () =>
  withPage('/', async (page) => {
    await page.getByRole('button', { name: 'Last 15 minutes' }).click()
    await page.getByLabel('Type or paste a range or a time').fill('Jan  2 03:04:05')
    await page.keyboard.press('Enter')
    await until('the range is around it', () => {
      const from = parameter(page, 'from')
      return from && new Date(from) > new Date(Date.now() - 370 * 86_400_000)
    })
  }))
