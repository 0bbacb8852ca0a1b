import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Ending } from '../platform.ts'
import type { Request } from '../request.ts'
import type { Connection } from '../settings.ts'

/**
 * What is open when the process ends. A process that has nothing more to do is kept until everything is sent. One that throws,
 * leaves a rejection unhandled or calls `process.exit` ends at once: nothing asynchronous happens any more, so what is left is
 * handed to another process, for which this one waits.
 */

/** As JSON, for the process that sends what is left. */
export type LastWords = { connection: Omit<Connection, 'log'>; requests: Request[] }[]

/** How long a process waits at its end for what is left to be sent. */
const lastMsMax = 10_000

const open = new Set<Ending>()
const withSigterm = new Set<Ending>()
let listens = false
let thrown: unknown

async function endAll(endings: Set<Ending>) {
  await Promise.all([...endings].map((it) => it.end()))
}

/** There is nothing more to do: what is sent now keeps the process alive until it is done. */
const onBeforeExit = () => void endAll(open)

/** The process ends by it, unless the program has a handler of its own. */
const onUncaught = (error: unknown) => {
  thrown = error
}

const onExit = (code: number) => {
  const failure = code === 0 ? undefined : thrown === undefined ? `The process ended with ${code}.` : describe(thrown)
  const rests = [...open].map((it) => it.leave({ failure })).filter((it) => it.left.length > 0)
  open.clear()
  if (rests.length === 0) return
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js'
  const program = fileURLToPath(new URL(`./last-words${extension}`, import.meta.url))
  const words: LastWords = rests.map(({ connection: { log: _, ...connection }, left }) => ({
    connection,
    requests: left.map((it) => it.request),
  }))
  const input = JSON.stringify(words, (_, value) =>
    value instanceof Uint8Array ? { base64: Buffer.from(value).toString('base64') } : value,
  )
  const { status, error } = spawnSync(process.execPath, [program], {
    input,
    timeout: lastMsMax,
    stdio: ['pipe', 'ignore', 'inherit'],
    // Options of Node that were meant for the program, such as an inspector's port, are not for this one.
    env: { ...process.env, NODE_OPTIONS: '' },
  })
  if (status === 0) return
  const count = rests.reduce((sum, it) => sum + it.left.length, 0)
  const why = error ? `${error.message}` : 'see above'
  rests[0]?.connection.log.error(`svc: ${count} requests were left at the exit, and not all of them were sent (${why})`)
}

const onSigterm = () => {
  void endAll(withSigterm).finally(() => {
    process.off('SIGTERM', onSigterm)
    // Others that listen decide by themselves when the process ends.
    if (process.listenerCount('SIGTERM') === 0) process.kill(process.pid, 'SIGTERM')
  })
}

/** @returns forgets it, once it has ended */
export function endAtExit(ending: Ending, atSigterm: boolean): () => void {
  open.add(ending)
  if (!listens) {
    process.on('beforeExit', onBeforeExit)
    process.on('uncaughtExceptionMonitor', onUncaught)
    process.on('exit', onExit)
  }
  listens = true
  if (atSigterm) {
    if (withSigterm.size === 0) process.on('SIGTERM', onSigterm)
    withSigterm.add(ending)
  }
  return () => {
    open.delete(ending)
    withSigterm.delete(ending)
  }
}

function describe(error: unknown): string {
  return error instanceof Error ? `${error.name}: ${error.message}` : String(error)
}
