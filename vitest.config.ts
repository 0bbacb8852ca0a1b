import { mkdirSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import path from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { startOfProcess } from './store/embedded/live-process.ts'
import { leftToCi } from './test/kit/left-to-ci.ts'
import { SlowestFirst } from './test/kit/slowest-first.ts'

// Each worker loads the same libraries again.
process.env.NODE_COMPILE_CACHE ??= path.join(import.meta.dirname, 'node_modules', '.cache', 'svc')
keepFilesInMemory()

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts', 'bench/**/*.test.ts', 'clients/typescript/test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...excluded()],
    globalSetup: ['test/kit/stores/shared-stores.ts'],
    setupFiles: ['test/kit/warnings.ts'],
    // A test that asserts nothing fails.
    expect: { requireAssertions: true },
    // A busy machine needs several times what a quiet one does.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    // Files share a worker: to load the service anew for each of them took a third of the CPU of the whole run (measured).
    // Nothing at module level keeps state, so they do not meet.
    isolate: false,
    // Two more than two cores: many tests wait for stores that come back, for leases that end and for processes that start.
    maxWorkers: 4,
    sequence: { sequencer: SlowestFirst },
  },
})

/** In the short form, unless files are named on the command line. */
function excluded(): string[] {
  const isShort = (process.env.SVC_TEST_FORM ?? 'short') === 'short'
  const namesFiles = process.argv.slice(2).some((it) => /^[\w./-]+$/.test(it) && it.includes('/'))
  if (!isShort || namesFiles) return []
  console.log(`${leftToCi.length} files are left to CI: npm run test:ci has them.`)
  return leftToCi
}

/**
 * Puts the stores of the tests into memory where Linux has room for them: they sync after every write, which takes a disk
 * several times as long as the write. What a killed process has written is kept all the same.
 */
function keepFilesInMemory() {
  if (process.env.TMPDIR) return
  const memory = '/dev/shm'
  const bytesMin = 6 * 1024 ** 3
  try {
    const { bavail, bsize } = statfsSync(memory)
    if (bavail * bsize < bytesMin) return
    const prefix = 'svc-tests-'
    for (const name of readdirSync(memory)) {
      const pid = name.startsWith(prefix) ? Number(name.slice(prefix.length)) : process.pid
      // A killed run leaves its folder behind.
      if (!startOfProcess(pid)) rmSync(path.join(memory, name), { recursive: true, force: true })
    }
    const folder = path.join(memory, `${prefix}${process.pid}`)
    mkdirSync(folder, { mode: 0o755 })
    process.env.TMPDIR = folder
    process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  } catch {
    // No such folder, or none that may be written: the disk serves as well.
  }
}
