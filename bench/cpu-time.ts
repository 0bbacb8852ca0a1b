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
