import { type ChildProcess, fork, spawn } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { findFreePort } from '../../store/embedded/free-port.ts'
import type { LoadReport } from '../load/load-report.ts'
import type { LoadAnswer, LoadOrder } from '../load/messages.ts'

export type Server = {
  name: string
  url: string
  pid: number
  /** Ends it as a crash does. */
  kill(): Promise<void>
  close(): Promise<void>
}

const readyMsMax = 30_000
const drainMsMax = 40_000
const pollMs = 50
const outputCharactersMax = 20_000

type ServerOptions = {
  name: string
  script: URL
  args?: string[]
  environment: Record<string, string>
  /** Where to put a CPU profile when the process ends. */
  profileFolder?: string
}

/** Starts a script that listens on SVC_PORT, as a process of its own, and waits until it is ready. */
export async function startServer(options: ServerOptions): Promise<Server> {
  const { name, script, args = [], environment, profileFolder } = options
  const port = await findFreePort()
  const profiling = profileFolder
    ? ['--cpu-prof', `--cpu-prof-dir=${profileFolder}`, `--cpu-prof-name=${name}.cpuprofile`]
    : []
  const { PATH, HOME, TMPDIR } = process.env
  const child = spawn(process.execPath, [...profiling, fileURLToPath(script), ...args], {
    env: { PATH, HOME, TMPDIR, SVC_PORT: String(port), SVC_LOG_LEVEL: 'warn', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const keepOutput = (chunk: Buffer) => {
    output = (output + chunk).slice(-outputCharactersMax)
  }
  child.stdout.on('data', keepOutput)
  child.stderr.on('data', keepOutput)
  const ended = whenEnded(child)
  const url = `http://127.0.0.1:${port}`
  const deadline = performance.now() + readyMsMax
  while (!(await isReady(url))) {
    if (child.exitCode !== null || performance.now() > deadline) {
      child.kill('SIGKILL')
      throw new Error(`${name} did not start:\n${output}`)
    }
    await sleep(pollMs)
  }
  return {
    name,
    url,
    pid: child.pid as number,
    async kill() {
      child.kill('SIGKILL')
      await ended
    },
    async close() {
      child.kill('SIGTERM')
      const isOver = await Promise.race([ended.then(() => true), sleep(drainMsMax, false, { ref: false })])
      if (!isOver) child.kill('SIGKILL')
      await ended
      // `up` greets; the roles say only what went wrong.
      if (output !== '' && name !== 'up') process.stderr.write(`${name} said:\n${output}\n`)
    },
  }
}

async function isReady(url: string): Promise<boolean> {
  const answer = await fetch(`${url}/readyz`).catch(() => undefined)
  await answer?.arrayBuffer()
  return answer?.ok === true
}

export type LoadProcess = {
  prepare(order: Exclude<LoadOrder, { kind: 'run' }>): Promise<void>
  run(seconds: number, pointsPerSecond?: number): Promise<LoadReport>
  close(): Promise<void>
}

/** Starts the process that makes the load. */
export function startLoadProcess(): LoadProcess {
  const child = fork(fileURLToPath(new URL('../load/load-process.ts', import.meta.url)), { stdio: 'inherit' })
  const ended = whenEnded(child)

  function ask(order: LoadOrder): Promise<LoadAnswer> {
    return new Promise((resolve, reject) => {
      const stop = () => reject(new Error('The load process ended.'))
      child.once('exit', stop)
      child.once('message', (answer: LoadAnswer) => {
        child.off('exit', stop)
        if (answer.kind === 'failed') reject(new Error(`The load process failed: ${answer.message}`))
        else resolve(answer)
      })
      child.send(order)
    })
  }

  return {
    async prepare(order) {
      await ask(order)
    },
    async run(seconds, pointsPerSecond) {
      const answer = await ask({ kind: 'run', seconds, ...(pointsPerSecond !== undefined && { pointsPerSecond }) })
      if (answer.kind !== 'ran') throw new Error('The load process answered something else.')
      return answer.report
    },
    async close() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

function whenEnded(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    child.once('exit', () => resolve())
  })
}
