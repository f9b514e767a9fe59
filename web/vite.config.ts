import tailwindcss from '@tailwindcss/vite'
import { defineConfig } from 'vitest/config'

// A control plane node to develop against, for "npm run dev".
const target = process.env['CONSOLE_URL'] ?? 'http://127.0.0.1:7100'

export default defineConfig({
  plugins: [tailwindcss()],
  build: {
    // What an earlier build left goes; public/.keep brings back the placeholder that Go embeds.
    emptyOutDir: true,
    // The server's content policy allows files of its own, and nothing inline.
    assetsInlineLimit: 0,
    // For the test of how much the first page loads.
    manifest: true,
    modulePreload: { polyfill: false },
    rolldownOptions: {
      onLog(level, log, tell) {
        // Libraries mark what belongs to the browser for servers that draw pages; this one draws none.
        if (log.code !== 'MODULE_LEVEL_DIRECTIVE') tell(level, log)
      },
    },
  },
  server: { proxy: { '/v1': target } },
  test: { include: ['src/**/*.test.{ts,tsx}'] },
})
