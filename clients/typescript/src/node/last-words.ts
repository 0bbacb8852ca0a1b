/** The process that sends what another one has left at its end: reads it from standard input, and says what was not sent. */
import { setTimeout as sleep } from 'node:timers/promises'
import { perform } from '../perform.ts'
import type { Request } from '../request.ts'
import { createTransport, type Transport, Unavailable } from '../transport.ts'
import type { LastWords } from './exit.ts'
import { createPlatform } from './platform.ts'

/** A little less than the other one waits. */
const msMax = 9_000
const pauseMs = 250

const deadline = Date.now() + msMax
const stop = new AbortController()
const platform = createPlatform()
setTimeout(() => stop.abort(), msMax).unref()

for (const { connection, requests } of await readWords()) {
  const transport = createTransport({ ...connection, log: console }, stop.signal, platform)
  for (const [index, request] of requests.entries()) {
    const fault = await send(transport, request)
    if (fault === undefined) continue
    process.exitCode = 1
    console.error(`svc: ${fault.error.message}`)
    if (fault.isFinal) continue
    console.error(`svc: ${requests.length - index} requests of the process that ended are given up.`)
    break
  }
}

async function readWords(): Promise<LastWords> {
  let text = ''
  process.stdin.setEncoding('utf8')
  for await (const chunk of process.stdin) text += chunk
  return JSON.parse(text, (_, value) =>
    typeof value === 'object' && value !== null && typeof value.base64 === 'string'
      ? Buffer.from(value.base64, 'base64')
      : value,
  )
}

/** What kept it from being sent; final when the service refuses it. */
async function send(transport: Transport, request: Request) {
  for (;;) {
    try {
      // The process that ended may have sent it just before.
      await perform({ transport, platform }, request, () => true)
      return undefined
    } catch (reason) {
      const error = reason instanceof Error ? reason : new Error(String(reason))
      if (!(error instanceof Unavailable)) return { error, isFinal: true }
      const waitMs = error.retryAfterMs ?? pauseMs
      if (Date.now() + waitMs > deadline) return { error, isFinal: false }
      await sleep(waitMs)
    }
  }
}
