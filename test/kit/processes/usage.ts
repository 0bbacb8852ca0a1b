import { readFile } from 'node:fs/promises'

/** Resident memory of a process in bytes, now and at its highest; undefined where there is no /proc. */
export async function readMemory(pid: number): Promise<{ now: number; peak: number } | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => '')
  const [now, peak] = ['VmRSS', 'VmHWM'].map((name) => new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1])
  return now === undefined || peak === undefined ? undefined : { now: Number(now) * 1024, peak: Number(peak) * 1024 }
}
