// What must hold whatever logs contain and whatever happens to weir: log text is inert, every
// screen is accessible, and the page survives a stopped server.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { test } from 'node:test'
import { inBatches, openPage, requests, serve, stored, until, world } from './harness.mjs'

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const hostile = [
  '<img src=x onerror="window.broken=1"><script>window.broken=2</script>',
  '\u001b[31mred\u001b[0m \u001b[2J\u001b]0;title\u0007 plain',
  'user \u202Egnp.exe\u202C wrote \u2066isolated\u2069 \u200Bnothing',
  'nul \u0000 bell \u0007 tab\t end',
  'javascript:alert(1) {{constructor.constructor("window.broken=3")()}} %0d%0a',
  `a megabyte ${'x'.repeat(240_000)}`,
]

const here = world(async (weir) => {
  const now = Date.now()
  await weir.post(
    hostile.map((message, at) => ({
      message,
      timestamp: now - at,
      service: '<b onclick=alert(1)>evil</b>',
      hostname: '"><svg onload=window.broken=4>',
      status: 'error',
      ddtags: 'env:<i>x</i>',
      '<u>key</u>': '<img src=y onerror=window.broken=5>',
      'a:b "c"': 'value \\ with "quotes"',
    })),
  )
  await inBatches(weir, requests(300))
  await stored(weir, '', hostile.length + 300)
})

test('hostile lines are shown and do nothing, in every part of the page', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/?q=service:evil* OR service:*evil*`)
  await page.locator('.record-space .record').first().waitFor()
  assert.equal(await page.locator('.record-space .record').count(), hostile.length)
  const text = (await page.locator('.record-space .message').allInnerTexts()).join('\n')
  assert.match(text, /<img src=x onerror=/)
  assert.ok(!text.includes('\u202E'), 'no mark turns the direction')
  assert.ok(await page.locator('.sign', { hasText: 'RLO' }).count())
  assert.ok(await page.locator('.ansi-red', { hasText: 'red' }).count())
  for (let at = 0; at < hostile.length; at += 1) {
    await page.locator('.record-space .record').nth(at).click()
    for (const tab of ['JSON', 'Context', 'Path', 'Fields']) {
      await page.getByRole('tab', { name: tab, exact: true }).click()
      await page.waitForTimeout(60)
    }
    await page.keyboard.press('Escape')
  }
  for (const view of ['patterns', 'groups']) {
    await page.goto(`${here.server.address}/?view=${view}&group=host`)
    await page.waitForTimeout(500)
  }
  assert.equal(await page.evaluate(() => window.broken), undefined)
  const made = await page.evaluate(
    () => document.querySelectorAll('body img, body b, body i, body u, body script').length,
  )
  assert.equal(made, 0)
  assert.deepEqual(complaints, [])
  await close()
})

test('hostile addresses and live rows do nothing either', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  const evil = encodeURIComponent('<img src=x onerror="window.broken=9">')
  const addresses = [
    `/?q=${evil}&cols=${evil},message`,
    `/?view=groups&group=${evil}&figure=avg&metric=${evil}`,
    `/?view=latency&metric=${evil}&by=${evil}&measure=${evil}&service=${evil}`,
    `/?from=${evil}&to=${evil}&row=${evil}&tab=${evil}`,
    `/?view=${evil}&split=${evil}&bar=${evil}&sort=${evil}&chart=${evil}`,
    `/pipeline?node=${evil}`,
    `/live?mark=${evil}&rate=${evil}`,
  ]
  for (const address of addresses) {
    await page.goto(here.server.address + address)
    await page.waitForTimeout(400)
  }
  await page.locator('.rate', { hasText: /^\s*live/ }).waitFor()
  const [first] = hostile
  await here.weir.post([{ message: first, service: '<b onclick=alert(1)>odd</b>', status: 'info' }])
  await page.locator('.live-row', { hasText: '<img src=x' }).click()
  for (const tab of ['JSON', 'Path', 'Fields']) {
    await page.getByRole('tab', { name: tab, exact: true }).click()
  }
  assert.equal(await page.evaluate(() => window.broken), undefined)
  const made = await page.evaluate(() => document.querySelectorAll('body img, body b').length)
  assert.equal(made, 0)
  assert.deepEqual(complaints, [])
  await close()
})

/** One of each kind of what nobody sees: direction, width, line, filler, tag, selector. */
const unseen = '\u202E\u200B\u2028\u00AD\u3164\u2800\u{E0041}\uFE0F\u2066\uFEFF'

/** Texts, names and tooltips of the document with a character in them that nobody would see. */
function unseenIn(page) {
  return page.evaluate((characters) => {
    const hasOne = (text) => [...characters].some((one) => text.includes(one))
    const found = hasOne(document.title) ? [`title ${document.title}`] : []
    const look = (root) => {
      const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT)
      for (let node = walker.currentNode; node; node = walker.nextNode()) {
        if (node.nodeType === Node.TEXT_NODE && hasOne(node.data)) {
          found.push(`text of ${node.parentElement?.className}: ${node.data.slice(0, 40)}`)
        }
        for (const name of ['title', 'aria-label', 'placeholder']) {
          const text = node.getAttribute?.(name) ?? ''
          if (hasOne(text)) found.push(`${name} of ${node.className}: ${text.slice(0, 40)}`)
        }
        if (node.shadowRoot) look(node.shadowRoot)
      }
    }
    look(document.documentElement)
    return found
  }, unseen)
}

test('no text, name or tooltip has a character that nobody sees', async () => {
  const record = (at) => ({
    message: `hidden ${unseen} ${at}`,
    service: `hid${unseen}`,
    hostname: `host${unseen}`,
    status: 'error',
    trace_id: 'cd'.repeat(16),
    ddtags: `env:${unseen},key${unseen}x:1`,
    [`field${unseen}`]: `value${unseen}`,
    [`number${unseen}`]: at,
  })
  await here.weir.post([0, 1, 2].map(record))
  await stored(here.weir, 'hidden', 3)
  const { page, close } = await openPage(here.browser)
  const views = ['', '&view=patterns', '&view=groups&group=service', '&view=groups&chart=lines']
  for (const view of [...views, '&view=latency']) {
    await page.goto(`${here.server.address}/?q=hidden${view}`)
    await page.locator('.value-name').first().waitFor()
    await page.waitForTimeout(300)
    assert.deepEqual(await unseenIn(page), [], view)
  }
  await page.goto(`${here.server.address}/?q=hidden`)
  await page.locator('.facet-name').first().waitFor()
  const closed = page.locator('.facet-name[aria-expanded=false]')
  while ((await closed.count()) > 0) await closed.first().click()
  await page.locator('.record-space .record').first().click()
  for (const tab of ['JSON', 'Context', 'Trace', 'Path', 'Fields']) {
    await page.getByRole('tab', { name: tab, exact: true }).click()
    await page.waitForTimeout(200)
    assert.deepEqual(await unseenIn(page), [], tab)
  }
  await page.getByRole('button', { name: 'Actions for service' }).last().click()
  assert.deepEqual(await unseenIn(page), [], 'menu')
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Only service hid' }).click()
  await page.locator('.query-editor .cm-sign', { hasText: 'RLO' }).waitFor()
  assert.deepEqual(await unseenIn(page), [], 'query')
  await page.goto(`${here.server.address}/live`)
  await page.locator('.rate', { hasText: /^\s*live/ }).waitFor()
  await here.weir.post([record(3)])
  await page.locator('.live-row', { hasText: 'hidden' }).click()
  assert.deepEqual(await unseenIn(page), [], 'live')
  await close()
})

test('a click on a hostile value asks for just that value', async () => {
  const { page, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/`)
  await page.locator('.value-name', { hasText: 'evil' }).click()
  await until('its records alone are shown', async () => {
    return (await page.locator('.summary strong').innerText()) === `${hostile.length}`
  })
  await close()
})

/** Half of what counts as good (web.dev, cumulative layout shift). */
const layoutShiftMax = 0.05

const sizes = { wide: { width: 1440, height: 900 }, narrow: { width: 390, height: 844 } }
const looks = ['light', 'dark'].flatMap((colorScheme) =>
  Object.entries(sizes).map(([size, viewport]) => ({ colorScheme, size, viewport })),
)

/** Names of many services, so that every color of a stream is on the screen. */
const services = Array.from({ length: 30 }, (_, at) => ({
  message: `line ${at}`,
  service: `service-${at}`,
  status: at % 2 ? 'error' : 'info',
}))

for (const { colorScheme, size, viewport } of looks) {
  test(`axe finds nothing serious on any screen, ${colorScheme}, ${size}`, async () => {
    const { page, close } = await openPage(here.browser, { colorScheme, viewport })
    const screens = [
      '/?from=now-1h',
      '/?from=now-1h&view=patterns',
      '/?from=now-1h&view=groups',
      '/?from=now-1h&view=latency',
      '/?q=nothing-is-called-so',
      '/?q=status:(',
      '/live',
      '/pipeline',
      '/pipeline?node=output:copy',
      '/drains',
      '/reliability',
      '/capacity',
    ]
    for (const path of screens) {
      await page.goto(here.server.address + path)
      await page.waitForTimeout(900)
      if (path === screens[0]) await page.locator('.record-space .record').nth(2).click()
      if (path === '/live') {
        await page.locator('.rate', { hasText: /^\s*live/ }).waitFor()
        await here.weir.post(services)
        await page.locator('.live-row', { hasText: 'line 29' }).waitFor()
      }
      await page.evaluate(axe)
      // Off by default in axe, but part of WCAG 2.2 AA.
      const { violations } = await page.evaluate(() =>
        window.axe.run({ rules: { 'target-size': { enabled: true } } }),
      )
      const serious = violations.filter((one) => /serious|critical/.test(one.impact))
      const said = serious.map(
        (one) =>
          `${one.id}: ${one.nodes
            .slice(0, 3)
            .map((node) => `${node.html.slice(0, 140)} ${node.failureSummary.slice(0, 240)}`)
            .join(' | ')}`,
      )
      assert.deepEqual(said, [], path)
      const wide = await page.evaluate(
        () => document.documentElement.scrollWidth - window.innerWidth,
      )
      assert.ok(wide <= 0, `${path} is ${wide} px too wide`)
    }
    await close()
  })
}

for (const [size, viewport] of Object.entries(sizes)) {
  test(`nothing moves while a screen is loading, ${size}`, async () => {
    const { page, close } = await openPage(here.browser, { viewport })
    await page.addInitScript(() => {
      window.moved = 0
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries())
          window.moved += entry.hadRecentInput ? 0 : entry.value
      }).observe({ type: 'layout-shift', buffered: true })
    })
    const screens = ['/', '/?view=groups', '/?view=latency', '/live', '/pipeline', '/drains']
    for (const path of [...screens, '/reliability', '/capacity']) {
      await page.goto(here.server.address + path)
      await page.waitForTimeout(2_000)
      const moved = await page.evaluate(() => window.moved)
      assert.ok(moved < layoutShiftMax, `${path} shifts its layout by ${moved}`)
    }
    await close()
  })
}

test('it works below a path prefix', async () => {
  const below = await serve(here.weir.address, { prefix: '/tools/weir' })
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${below.address}/`)
  await page.locator('.record-space .record').first().waitFor()
  await page.getByRole('link', { name: 'Pipeline', exact: true }).click()
  await page.locator('.topology').waitFor()
  assert.equal(new URL(page.url()).pathname, '/tools/weir/pipeline')
  await page.reload()
  await page.locator('.topology').waitFor()
  assert.deepEqual(complaints, [])
  await close()
  await below.close()
})

test('the books are shown, and dead rules marked', async () => {
  const { page, complaints, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/pipeline`)
  await page.locator('.topology .node').nth(2).waitFor()
  await page.locator('.badge.good', { hasText: 'they balance' }).waitFor()
  await page.locator('tr', { hasText: 'nobody' }).getByText('never matched').waitFor()
  const status = await here.weir.status()
  const lines = status.sources[0].book.book.lines
  const cell = page
    .locator('[aria-label=Ledger] tr', { hasText: 'intake' })
    .first()
    .locator('td')
    .first()
  assert.equal(await cell.getAttribute('title'), lines.toLocaleString('en'))
  await page.locator('.node', { hasText: 'copy' }).click()
  await page.locator('.drawer', { hasText: 'service time, mean' }).waitFor()
  await page.keyboard.press('Escape')
  await page.locator('.drawer').waitFor({ state: 'detached' })
  assert.match(await page.evaluate(() => document.activeElement.textContent), /^copy/)
  assert.deepEqual(complaints, [])
  await close()
})

test('a book that does not balance is a clear sign', async () => {
  const { page, close } = await openPage(here.browser)
  await page.route('**/weir/v1/topology/stream', (route) => route.abort())
  await page.route('**/weir/v1/topology', async (route) => {
    const answer = await route.fetch()
    const topology = await answer.json()
    const { output } = topology.nodes.find((node) => node.output)
    output.book.unaccounted_records = 3
    await route.fulfill({ json: topology })
  })
  await page.goto(`${here.server.address}/pipeline`)
  await page.locator('.balance.bad', { hasText: '3 unaccounted' }).waitFor()
  await page.locator('.topbar', { hasText: 'the books do not balance' }).waitFor()
  await close()
})

test('a stopped weir is said, what was there stays, and it goes on by itself', async () => {
  const { page, close } = await openPage(here.browser)
  await page.goto(`${here.server.address}/`)
  await page.locator('.record-space .record').first().waitFor()
  await here.weir.stop()
  await page.getByText('weir is not responding.').waitFor({ timeout: 15_000 })
  assert.ok(await page.locator('.record-space .record').count())
  await page.keyboard.press('r')
  await page.getByText('These are the previous results').waitFor()
  assert.ok(await page.locator('.record-space .record').count(), 'rows stay on the screen')
  await here.weir.start()
  await page.getByText('weir is not responding.').waitFor({ state: 'detached', timeout: 20_000 })
  await close()
})
