// How the page is built: relative addresses, so that it works below any path prefix; nothing
// inline, for the strictest content security policy; each file also compressed, so that weir does
// not have to.
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import preact from '@preact/preset-vite'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

const target = process.env.WEIR_ADDRESS ?? 'http://127.0.0.1:7080'
const proxied = ['/api', '/weir', '/health', '/metrics']

function compressed(): Plugin {
  return {
    name: 'compressed',
    writeBundle({ dir = '' }, bundle) {
      for (const [name, file] of Object.entries(bundle)) {
        const content = file.type === 'chunk' ? file.code : file.source
        writeFileSync(path.join(dir, `${name}.gz`), gzipSync(content, { level: 9 }))
      }
    },
  }
}

export default defineConfig({
  base: './',
  plugins: [preact({ devToolsEnabled: false }), compressed()],
  build: {
    target: 'es2022',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    // What the first screen needs is one file, whichever parts of it others need as well.
    rolldownOptions: {
      output: { codeSplitting: { groups: [{ name: 'main', test: /src\/main\.tsx$/ }] } },
    },
  },
  server: { proxy: Object.fromEntries(proxied.map((path) => [path, target])) },
  test: { environment: 'happy-dom', include: ['src/**/*.test.ts', 'src/**/*.test.tsx'] },
})
