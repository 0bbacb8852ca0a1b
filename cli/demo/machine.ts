import { cpus, freemem, loadavg, totalmem } from 'node:os'

/** What this machine was doing at a moment. */
export interface MachineSample {
  /** Milliseconds since the Unix epoch. */
  timestamp: number
  /** Whole percent per core since the sample before; empty when no time was counted in between. */
  cpuPercent: number[]
  /** Bytes. */
  totalRam: number
  /** Bytes. */
  usedRam: number
  /** Mean number of processes that wanted to run in the last minute. */
  loadAverage: number
}

/** Answers a function that takes a sample; the cores' times count from one call to the next, at first from here. */
export function createMachineSampler(): () => MachineSample {
  let before = readCores()
  return () => {
    const now = readCores()
    const cpuPercent = now.map((core, index) => {
      const last = before[index] ?? core
      return Math.round((100 * (core.busy - last.busy)) / (core.total - last.total))
    })
    const counted = now.length > 0 && cpuPercent.every((percent) => Number.isFinite(percent))
    if (counted) before = now
    return {
      timestamp: Date.now(),
      // A core's two clocks (busy, idle) are not read in one moment, so a share may come out just outside 0 to 100.
      cpuPercent: counted ? cpuPercent.map((percent) => Math.min(100, Math.max(0, percent))) : [],
      totalRam: totalmem(),
      usedRam: totalmem() - freemem(),
      loadAverage: loadavg()[0] ?? 0,
    }
  }
}

function readCores(): { busy: number; total: number }[] {
  return cpus().map(({ times }) => {
    const busy = times.user + times.nice + times.sys + times.irq
    return { busy, total: busy + times.idle }
  })
}
