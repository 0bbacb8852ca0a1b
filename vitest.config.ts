import path from 'node:path'
import { defineConfig } from 'vitest/config'

// Each file of tests has a process of its own, which loads the same libraries again.
process.env.NODE_COMPILE_CACHE ??= path.join(import.meta.dirname, 'node_modules', '.cache', 'svc')

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', 'bench/**/*.test.ts', 'clients/typescript/test/**/*.test.ts'],
    globalSetup: ['test/kit/stores/shared-stores.ts'],
    // A busy machine needs several times what a quiet one does.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // Two cores: more processes at once would only wait for each other.
    maxWorkers: 2,
  },
})
