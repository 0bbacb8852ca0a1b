import { defineConfig } from 'vitest/config'

/** For tests of a running deployment; `rehearse` starts one. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['*.test.ts'],
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // One file at a time: one kills what another needs.
    maxWorkers: 1,
  },
})
