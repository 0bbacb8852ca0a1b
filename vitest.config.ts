import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', 'clients/typescript/test/**/*.test.ts'],
    globalSetup: ['test/harness/stores.ts'],
    // A busy machine needs several times what a quiet one does.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // Two cores: more processes at once would only wait for each other.
    maxWorkers: 2,
  },
})
