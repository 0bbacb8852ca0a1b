import { setTimeout as sleep } from 'node:timers/promises'
import type { Experiment } from '../cluster/cluster.ts'
import type { Expected } from '../verify/ledger.ts'
import { type Connection, createConnection, type WriteRequest } from './connection.ts'
import { createLatencies } from './latencies.ts'
import { rowsOf, toRequest } from './steady-writes.ts'
import { createTally } from './tally.ts'

export type Phase = 'before' | 'away' | 'after'

const phases: readonly Phase[] = ['before', 'away', 'after']

type Settings = {
  /** Points a second, of all clients together. */
  rate: number
  batch: number
  ingestUrls: string[]
  apiKey: string
  /** One for each client. */
  experiments: Experiment[]
}

export type SteadyLoad = ReturnType<typeof runSteadyLoad>

const retryMs = { least: 250, most: 750 }
const lastWishMs = 300_000

/**
 * Load that arrives at a steady rate even while the service is down, as from running trainings. A client buffers what it
 * cannot send yet and sends it in order; it retries each request with the same `Idempotency-Key` until acknowledged.
 */
export function runSteadyLoad({ rate, batch, ingestUrls, apiKey, experiments }: Settings) {
  const clients = experiments.length
  const everyMs = (clients * batch * 1_000) / rate
  const startedAt = performance.now()
  const byPhase = {
    before: { tally: createTally(), latencies: createLatencies() },
    away: { tally: createTally(), latencies: createLatencies() },
    after: { tally: createTally(), latencies: createLatencies() },
  }
  const acknowledged = experiments.map(() => 0)
  const sent = experiments.map(() => 0)
  let phase: Phase = 'before'
  let endedAt = Number.POSITIVE_INFINITY
  let giveUpAt = Number.POSITIVE_INFINITY

  const running = experiments.map((_, client) => runClient(client))

  async function runClient(client: number) {
    const connections = ingestUrls.map((url) => createConnection(url))
    for (let request = 0; ; request++) {
      const dueAt = dueTime(client, request)
      await sleepUntil(dueAt)
      if (dueAt > endedAt) break
      const { path, body } = toRequest(client, request, batch)
      const { key } = experiments[client] as Experiment
      const message = {
        path: `/write/experiment/${path}`,
        apiKey,
        idempotencyKey: `${client} ${request}`,
        body: `{"experimentKey":"${key}",${body.slice(1)}`,
      }
      sent[client] = request + 1
      for (let attempt = request; !(await send(attempt, message)); attempt++) {
        if (performance.now() > giveUpAt) return
        await sleep(retryMs.least + Math.random() * (retryMs.most - retryMs.least))
      }
      acknowledged[client] = request + 1
    }
    for (const connection of connections) connection.close()

    async function send(attempt: number, message: WriteRequest) {
      const { tally, latencies } = byPhase[phase]
      const connection = connections[(client + attempt) % connections.length] as Connection
      const sentAt = performance.now()
      try {
        const answer = await connection.post(message)
        latencies.record(performance.now() - sentAt)
        tally.answered(answer)
        return answer.status === 200
      } catch (error) {
        tally.unanswered(error as Error)
        return false
      }
    }
  }

  function dueTime(client: number, request: number): number {
    return startedAt + (request + client / clients) * everyMs
  }

  async function sleepUntil(at: number) {
    const ms = Math.min(at, endedAt) - performance.now()
    if (ms > 0) await sleep(ms)
  }

  return {
    enter(next: Phase) {
      phase = next
    },
    /** Points that should have been logged by now. */
    arrived(): number {
      return (Math.max(0, Math.min(performance.now(), endedAt) - startedAt) * rate) / 1_000
    },
    acknowledged: () => acknowledged.reduce((sum, it) => sum + it, 0) * batch,
    /** Ends the arrival; resolves when everything that arrived is acknowledged. */
    async finish() {
      endedAt = performance.now()
      giveUpAt = endedAt + lastWishMs
      await Promise.all(running)
    },
    expected(client: number): Expected {
      const points = rowsOf(client, (sent[client] as number) * batch)
      const clear = (acknowledged[client] as number) * batch
      return { points: points.slice(0, clear), lines: [], unclear: { points: points.slice(clear), lines: [] } }
    },
    report: () =>
      phases.map((name) => {
        const { tally, latencies } = byPhase[name]
        return { phase: name, ...tally.report(), p50Ms: latencies.quantileMs(0.5), p99Ms: latencies.quantileMs(0.99) }
      }),
  }
}
