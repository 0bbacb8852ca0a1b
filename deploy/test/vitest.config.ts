import { defineConfig } from 'vitest/config'

/** For the tests of a deployment that runs already; `rehearse` starts one. */
export default defineConfig({
  test: {
    root: import.meta.dirname,
    include: ['*.test.ts'],
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // What is killed in one test is needed by the next.
    maxWorkers: 1,
  },
})
