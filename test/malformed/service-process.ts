import { spawn } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { startOfProcess } from '../../store/embedded/live-process.ts'
import { eventually } from '../kit/eventually.ts'

const command = fileURLToPath(new URL('../../cli/svc.ts', import.meta.url))
const outputCharactersMax = 20_000
const startMsMax = 60_000
/** The level from which on a line of the log tells of a fault of the service (pino: error). */
const faultLevel = 50

export type ServiceProcess = Awaited<ReturnType<typeof startServiceProcess>>

/** Runs `svc up` as a process of its own, so that its end and its memory are seen from outside. */
export async function startServiceProcess(environment: Record<string, string>) {
  const port = await findFreePort()
  const { PATH, HOME, TMPDIR } = process.env
  const child = spawn(process.execPath, [command, 'up'], {
    env: { PATH, HOME, TMPDIR, SVC_PORT: String(port), ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const keepOutput = (chunk: Buffer) => {
    output = (output + chunk).slice(-outputCharactersMax)
  }
  child.stdout.on('data', keepOutput)
  child.stderr.on('data', keepOutput)
  const ended = new Promise<string>((resolve) => {
    child.once('exit', (code, signal) => resolve(signal ?? `exit code ${code}`))
  })
  // Whoever ends us ends it, too.
  process.once('exit', () => child.kill('SIGTERM'))
  const pid = child.pid as number
  const bornAt = startOfProcess(pid)
  const url = `http://127.0.0.1:${port}`
  await eventually(async () => {
    if (child.exitCode !== null) return
    const answer = await fetch(`${url}/readyz`)
    if (!answer.ok) throw new Error(`the service is not ready: ${await answer.text()}`)
  }, startMsMax)
  if (child.exitCode !== null) throw new Error(`The service did not start:\n${output}`)

  return {
    url,
    /** True while it is the process that was started: one that was started again is another. */
    isSame: () => bornAt !== undefined && startOfProcess(pid) === bornAt,
    /** Resident memory in bytes, now and at its highest; undefined where there is no /proc. */
    memory: () => readMemory(pid),
    /** Lines of the log that tell of a fault of the service. */
    faults: () => output.split('\n').filter((line) => levelOf(line) >= faultLevel),
    /** Stops it as Ctrl-C does, and answers how it ended. */
    async close(): Promise<string> {
      child.kill('SIGTERM')
      return await ended
    },
  }
}

function levelOf(line: string): number {
  return Number(/^\{"level":(\d+)/.exec(line)?.[1] ?? 0)
}

async function readMemory(pid: number): Promise<{ now: number; peak: number } | undefined> {
  const status = await readFile(`/proc/${pid}/status`, 'latin1').catch(() => '')
  const [now, peak] = ['VmRSS', 'VmHWM'].map((name) => new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1])
  return now && peak ? { now: Number(now) * 1024, peak: Number(peak) * 1024 } : undefined
}
