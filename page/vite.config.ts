// How the page is built: relative addresses, so that it works behind any path prefix, and nothing
// inline, so that the strictest content security policy holds.
import preact from '@preact/preset-vite'
import { defineConfig } from 'vitest/config'

const target = process.env.WEIR_ADDRESS ?? 'http://127.0.0.1:7080'
const proxied = ['/api', '/weir', '/health', '/metrics']

export default defineConfig({
  base: './',
  plugins: [preact({ devToolsEnabled: false })],
  build: { target: 'es2022', assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  server: { proxy: Object.fromEntries(proxied.map((path) => [path, target])) },
  test: { environment: 'happy-dom', include: ['src/**/*.test.ts', 'src/**/*.test.tsx'] },
})
