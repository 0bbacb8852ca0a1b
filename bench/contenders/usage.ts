import { readdir, readFile } from 'node:fs/promises'

/** Linux counts the CPU time of processes in hundredths of a second, whatever the kernel's own clock. */
const ticksPerSecond = 100

type Stat = { parent: number; ticks: number }

/**
 * Seconds of CPU that a process, its threads and all its descendants have used so far, children that ended included;
 * undefined where there is no /proc (only Linux has it).
 */
export async function readCpuSeconds(pids: number[]): Promise<number[] | undefined> {
  if (process.platform !== 'linux') return undefined
  const stats = await readStats()
  const children = Map.groupBy(stats.keys(), (pid) => (stats.get(pid) as Stat).parent)
  const sum = (pid: number): number =>
    (stats.get(pid)?.ticks ?? 0) + (children.get(pid) ?? []).reduce((ticks, child) => ticks + sum(child), 0)
  return pids.map((pid) => sum(pid) / ticksPerSecond)
}

/**
 * The most memory that each process and its descendants of now have had at a time, in MiB; undefined where there is no
 * /proc. Peaks of several processes are added up, and what they share is counted in each.
 */
export async function readPeakMiB(pids: number[]): Promise<number[] | undefined> {
  if (process.platform !== 'linux') return undefined
  const stats = await readStats()
  const children = Map.groupBy(stats.keys(), (pid) => (stats.get(pid) as Stat).parent)
  const family = (pid: number): number[] => [pid, ...(children.get(pid) ?? []).flatMap(family)]
  const peaks = pids.map(async (pid) => {
    const texts = await Promise.all(family(pid).map((it) => readFile(`/proc/${it}/status`, 'latin1').catch(() => '')))
    return texts.reduce((sum, text) => sum + Number(/^VmHWM:\s+(\d+) kB/m.exec(text)?.[1] ?? 0), 0) / 1024
  })
  return await Promise.all(peaks)
}

async function readStats(): Promise<Map<number, Stat>> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name)).map(Number)
  const texts = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)))
  return new Map(pids.flatMap((pid, index) => (texts[index] ? [[pid, parseStat(texts[index])] as const] : [])))
}

/** See proc_pid_stat(5). The name of the program comes second, in brackets, and may hold anything. */
function parseStat(text: string): Stat {
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  const [utime, stime, cutime, cstime] = fields.slice(11, 15).map(Number)
  return { parent: Number(fields[1]), ticks: (utime ?? 0) + (stime ?? 0) + (cutime ?? 0) + (cstime ?? 0) }
}
