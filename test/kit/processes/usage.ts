import { readdir, readFile, writeFile } from 'node:fs/promises'

/** What processes use, read from /proc; undefined on systems without it (only Linux has it). */

/** The unit of CPU times in /proc, whatever the kernel's own clock: a hundredth of a second. */
const ticksPerSecond = 100

type Stat = { parent: number; ticks: number }

/** Seconds of CPU of each process, its threads and all its descendants so far, including children that have ended. */
export async function readCpuSeconds(pids: number[]): Promise<number[] | undefined> {
  if (process.platform !== 'linux') return undefined
  const stats = await readStats()
  const children = Map.groupBy(stats.keys(), (pid) => (stats.get(pid) as Stat).parent)
  const sum = (pid: number): number =>
    (stats.get(pid)?.ticks ?? 0) + (children.get(pid) ?? []).reduce((ticks, child) => ticks + sum(child), 0)
  return pids.map((pid) => sum(pid) / ticksPerSecond)
}

/**
 * Peak memory of each process with its present descendants, in bytes. The peaks of several processes are added up, and
 * pages they share count in each.
 */
export async function readPeakMemory(pids: number[]): Promise<number[] | undefined> {
  return await ofFamilies(pids, async (pid) => (await readMemory(pid))?.peak ?? 0)
}

/** Peaks count from now on: see `clear_refs` in proc_pid_clear_refs(5). */
export async function forgetPeakMemory(pids: number[]): Promise<void> {
  await ofFamilies(pids, async (pid) => {
    await writeFile(`/proc/${pid}/clear_refs`, '5').catch(() => undefined)
    return 0
  })
}

/** A sum over each process and its present descendants. */
async function ofFamilies(pids: number[], read: (pid: number) => Promise<number>): Promise<number[] | undefined> {
  if (process.platform !== 'linux') return undefined
  const stats = await readStats()
  const children = Map.groupBy(stats.keys(), (pid) => (stats.get(pid) as Stat).parent)
  const family = (pid: number): number[] => [pid, ...(children.get(pid) ?? []).flatMap(family)]
  const sums = pids.map(async (pid) => {
    const values = await Promise.all(family(pid).map(read))
    return values.reduce((sum, it) => sum + it, 0)
  })
  return await Promise.all(sums)
}

/** Resident memory of one process in bytes, now and at its peak. */
export async function readMemory(pid: number): Promise<{ now: number; peak: number } | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => '')
  const [now, peak] = ['VmRSS', 'VmHWM'].map((name) => new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1])
  return now === undefined || peak === undefined ? undefined : { now: Number(now) * 1024, peak: Number(peak) * 1024 }
}

async function readStats(): Promise<Map<number, Stat>> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const texts = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)))
  return new Map(pids.flatMap((pid, index) => (texts[index] ? [[pid, parseStat(texts[index])] as const] : [])))
}

/** See proc_pid_stat(5). The second field is the program's name in brackets, which may hold spaces and brackets. */
function parseStat(text: string): Stat {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [utime, stime, cutime, cstime] = fields.slice(11, 15).map(Number)
  return { parent: Number(fields[1]), ticks: (utime ?? 0) + (stime ?? 0) + (cutime ?? 0) + (cstime ?? 0) }
}
