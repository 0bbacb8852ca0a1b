import { cpus, freemem, loadavg, totalmem } from 'node:os'

/** A sample of this machine's load. */
export interface MachineSample {
  /** Milliseconds since the Unix epoch. */
  timestamp: number
  /** Whole percent per core since the sample before; empty when no time was counted in between. */
  cpuPercent: number[]
  /** Bytes. */
  totalRam: number
  /** Bytes. */
  usedRam: number
  /** Load average of the last minute. */
  loadAverage: number
}

/** Returns a function that takes a sample. CPU times count from the previous sample, at first from this call. */
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
      // Busy and idle times are not read at the same moment, so a share may be slightly outside 0 to 100.
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
