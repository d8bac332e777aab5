// Measures the page in front of a running weir (WEIR_ADDRESS, and WEIR_INTAKE for the live tail)
// and prints the figures: size, first paint, queries, scrolling, live tail.
import { readdirSync, readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import { openBrowser, openPage, serve } from './harness.mjs'

const weir = process.env.WEIR_ADDRESS ?? 'http://127.0.0.1:7080'
const range = process.env.RANGE ?? 'now-1d'
const server = await serve(weir)
const browser = await openBrowser()

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]
const say = (name, value) => console.log(`${name.padEnd(64)} ${value}`)

await weight()
await firstPaint()
await answers()
await scrolling()
if (process.env.WEIR_INTAKE) await following(process.env.WEIR_INTAKE)
await browser.close()
await server.close()

async function weight() {
  const { page, close } = await openPage(browser)
  const names = []
  page.on('request', (request) => {
    const name = new URL(request.url()).pathname
    if (/\.(js|css)$/.test(name)) names.push(name.split('/').at(-1))
  })
  await page.goto(server.address)
  await page.locator('.query-editor .cm-content').waitFor()
  const size = (name) =>
    gzipSync(readFileSync(new URL(`../dist/assets/${name}`, import.meta.url)), { level: 9 }).length
  const scripts = names.filter((name) => name.endsWith('.js'))
  const weightOf = (found) => found.reduce((sum, name) => sum + size(name), 0)
  const all = weightOf(scripts)
  const later = weightOf(scripts.filter((name) => /^(editor|plot)-/.test(name)))
  say('script at first paint, gzip', `${((all - later) / 1000).toFixed(1)} kB`)
  say('charts and the editor, gzip, fetched after it', `${(later / 1000).toFixed(1)} kB`)
  const built = readdirSync(new URL('../dist/assets/', import.meta.url))
  const total = weightOf(built.filter((name) => !name.endsWith('.gz')))
  say('everything that is built, gzip', `${(total / 1000).toFixed(1)} kB`)
  await close()
}

async function firstPaint() {
  const times = []
  const shifts = []
  for (let turn = 0; turn < 5; turn += 1) {
    const { page, close } = await openPage(browser)
    await page.addInitScript(() => {
      window.seen = { lcp: 0, shift: 0 }
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.seen.lcp = entry.startTime
      }).observe({ type: 'largest-contentful-paint', buffered: true })
      new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) window.seen.shift += entry.value
      }).observe({ type: 'layout-shift', buffered: true })
    })
    await page.goto(`${server.address}/?from=${range}`)
    await page.locator('.record-space .record').first().waitFor()
    await page.waitForTimeout(1_500)
    const seen = await page.evaluate(() => window.seen)
    times.push(seen.lcp)
    shifts.push(seen.shift)
    await close()
  }
  say('largest contentful paint, cold, median of 5', `${median(times).toFixed(0)} ms`)
  say('cumulative layout shift, worst of 5', Math.max(...shifts).toFixed(4))
}

async function answers() {
  const { page, close } = await openPage(browser)
  await page.goto(`${server.address}/?from=${range}`)
  const editor = page.locator('.query-editor .cm-content')
  await editor.waitFor()
  await page.waitForTimeout(3_000)
  for (const query of [
    '',
    'status:error',
    '"timed out"',
    'service:web @duration:>100ms',
    'query took',
  ]) {
    const times = []
    for (let turn = 0; turn < 7; turn += 1) {
      await editor.click()
      await page.keyboard.press('Control+a')
      await page.keyboard.insertText(query || '*')
      await page.keyboard.press('Escape')
      await page.evaluate(() => {
        window.before = document.querySelector('.record-space')?.firstElementChild
        window.drawn = undefined
      })
      await editor.focus()
      const began = await page.evaluate(() => {
        const began = performance.now()
        const space = document.querySelector('.answers')
        const busy = () => space.querySelector('.records')?.getAttribute('aria-busy') === 'true'
        let was = false
        const watch = () => {
          if (busy()) was = true
          else if (was) {
            requestAnimationFrame(() => {
              window.drawn = performance.now()
            })
            return
          }
          requestAnimationFrame(watch)
        }
        window.addEventListener(
          'keydown',
          () => {
            window.pressed = performance.now()
            requestAnimationFrame(watch)
          },
          { once: true, capture: true },
        )
        return began
      })
      await page.keyboard.press('Enter')
      await page.waitForFunction(() => window.drawn !== undefined, undefined, { timeout: 20_000 })
      times.push(await page.evaluate(() => window.drawn - window.pressed))
      await page.waitForTimeout(600)
      void began
    }
    say(
      `first rows drawn after Enter: ${query || '*'}, median and best of 7`,
      `${median(times).toFixed(0)} and ${Math.min(...times).toFixed(0)} ms`,
    )
  }
  await close()
}

async function scrolling() {
  const { page, close } = await openPage(browser)
  await page.goto(`${server.address}/?from=${range}`)
  await page.locator('.record-space .record').first().waitFor()
  await page.locator('.records').focus()
  const rows = () => page.locator('.records').getAttribute('aria-activedescendant')
  const began = Date.now()
  while (Date.now() - began < 120_000) {
    await page.keyboard.press('End')
    await page.waitForTimeout(80)
    const at = Number((await rows())?.split('-')[1] ?? 0)
    if (at >= 99_000) break
  }
  say(
    'rows loaded by pressing End',
    `${Number((await rows())?.split('-')[1] ?? 0) + 1} in ${((Date.now() - began) / 1000).toFixed(1)} s`,
  )
  await page.waitForTimeout(1_000)
  const figures = await page.evaluate(async () => {
    const element = document.querySelector('.records')
    const long = []
    const observer = new PerformanceObserver((list) =>
      long.push(...list.getEntries().map((one) => one.duration)),
    )
    observer.observe({ type: 'longtask' })
    const frames = []
    let last = performance.now()
    const end = last + 8_000
    element.scrollTop = 0
    while (performance.now() < end) {
      await new Promise((resolve) => requestAnimationFrame(resolve))
      const now = performance.now()
      frames.push(now - last)
      last = now
      element.scrollTop += 160
    }
    observer.disconnect()
    const sorted = frames.sort((a, b) => a - b)
    return {
      rate: frames.length / 8,
      worst: sorted.at(-1),
      p99: sorted[Math.floor(sorted.length * 0.99)],
      long: long.length,
      heap: performance.memory.usedJSHeapSize,
    }
  })
  say('frames per second while scrolling', figures.rate.toFixed(1))
  say(
    'frame time, 99th percentile and worst',
    `${figures.p99.toFixed(1)} and ${figures.worst.toFixed(1)} ms`,
  )
  say('tasks over 50 ms meanwhile', figures.long)
  say('heap with these rows', `${(figures.heap / 1e6).toFixed(0)} MB`)
  await close()
}

/** CPU time of the page's process, seconds, while so many lines a second come in. */
async function following(intake) {
  const { page, close } = await openPage(browser)
  await page.goto(`${server.address}/live?rate=5000`)
  await page.locator('.rate', { hasText: 'matched' }).waitFor()
  const session = await page.context().newCDPSession(page)
  await session.send('Performance.enable')
  const task = async () => {
    const { metrics } = await session.send('Performance.getMetrics')
    const value = (name) => metrics.find((one) => one.name === name)?.value ?? 0
    return {
      cpu: value('ProcessTime') || value('TaskDuration'),
      task: value('TaskDuration'),
      heap: value('JSHeapUsedSize'),
    }
  }
  let on = true
  const sender = (async () => {
    let at = 0
    const body = () =>
      JSON.stringify(
        Array.from({ length: 500 }, () => {
          at += 1
          return {
            message: `GET /orders/${at} 200 in ${at % 90} ms with some more words to make it long`,
            service: `s${at % 5}`,
            status: 'info',
          }
        }),
      )
    while (on) {
      const next = Date.now() + 100
      await fetch(`http://${intake}/api/v2/logs`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: body(),
      })
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, next - Date.now())))
    }
  })()
  await page.waitForTimeout(3_000)
  const first = await task()
  const seconds = Number(process.env.LIVE_SECONDS ?? 20)
  await page.waitForTimeout(seconds * 1_000)
  const last = await task()
  const titles = await page
    .locator('.rate[title]')
    .evaluateAll((all) => all.map((one) => one.getAttribute('title')))
  on = false
  await sender
  say(
    'live tail at 5,000 lines/s: main thread busy',
    `${(((last.task - first.task) / seconds) * 100).toFixed(1)} % of a core`,
  )
  say(
    'live tail: CPU time of the page process',
    `${(((last.cpu - first.cpu) / seconds) * 100).toFixed(1)} % of a core`,
  )
  say(
    'live tail: heap before and after',
    `${(first.heap / 1e6).toFixed(0)} and ${(last.heap / 1e6).toFixed(0)} MB`,
  )
  say(
    'live tail: counted',
    titles.map((title) => title.replace(' since this tail started', '')).join(', '),
  )
  await close()
}
