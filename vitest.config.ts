import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/harness/stores.ts'],
    testTimeout: 120_000,
    hookTimeout: 120_000,
    // Two cores: more processes at once would only wait for each other.
    maxWorkers: 2,
  },
})
