import { setTimeout as sleep } from 'node:timers/promises'
import { createRandom } from '../../../cli/demo/random.ts'
import type { Experiment } from '../cluster/cluster.ts'
import type { Ledger } from '../verify/ledger.ts'
import { type Connection, createConnection } from './connection.ts'
import type { Tally } from './tally.ts'
import { createWrites, type Write } from './writes.ts'

type Settings = {
  clients: number
  seed: number
  ingestUrls: string[]
  apiKey: string
  experiments: Experiment[]
  ledger: Ledger
  tally: Tally
}

const pauseMsMax = 250
const retryMsMax = 300
/** How often a client repeats an acknowledged request, as after a lost answer. */
const repeatShare = 0.05
const rememberedMax = 20
/** How long after the end clients still retry their last request. */
const lastWishMs = 60_000

type Request = { idempotencyKey: string; write: Write; body: string }

/**
 * Runs clients like those of a training cluster. Each sends one request at a time to a random ingest, retries it with the
 * same `Idempotency-Key` until it is acknowledged, and only then enters it into the ledger.
 */
export function runClients(settings: Settings) {
  let isOver = false
  let giveUpAt = Number.POSITIVE_INFINITY
  const running = Array.from({ length: settings.clients }, (_, client) => runClient(client))

  async function runClient(client: number) {
    const { seed, ingestUrls, apiKey, experiments, ledger, tally } = settings
    const writes = createWrites(client, createRandom(seed * 1_000 + client))
    const experiment = client % experiments.length
    const experimentKey = (experiments[experiment] as Experiment).key
    const connections = ingestUrls.map((url) => createConnection(url))
    const remembered: Request[] = []

    for (let count = 0; !isOver; count++) {
      const write = writes.next()
      const request = {
        idempotencyKey: `${seed} ${client} ${count}`,
        write,
        body: JSON.stringify({ experimentKey, ...write.fields }),
      }
      if (await sendUntilAcknowledged(request)) {
        ledger.acknowledge(experiment, write)
        remembered.push(request)
        if (remembered.length > rememberedMax) remembered.shift()
      } else ledger.leaveUnclear(experiment, write)
      if (Math.random() < repeatShare) await sendUntilAcknowledged(anyOf(remembered))
      await sleep(Math.random() * pauseMsMax)
    }
    for (const connection of connections) connection.close()

    async function sendUntilAcknowledged(request: Request | undefined): Promise<boolean> {
      while (request && performance.now() < giveUpAt) {
        if (await send(anyOf(connections) as Connection, request)) return true
        await sleep(Math.random() * retryMsMax)
      }
      return false
    }

    async function send(connection: Connection, { idempotencyKey, write, body }: Request): Promise<boolean> {
      try {
        const answer = await connection.post({
          path: `/write/experiment/${write.path}`,
          apiKey,
          idempotencyKey,
          body,
        })
        tally.answered(answer)
        if (answer.status === 200) checkAccepted(write, answer.body)
        return answer.status === 200
      } catch (error) {
        tally.unanswered(error as Error)
        return false
      }
    }

    function checkAccepted(write: Write, body: string) {
      if (write.path !== 'metrics/batch' || JSON.parse(body).accepted === write.points.length) return
      tally.complain(`of ${write.points.length} points not all were accepted: ${body.slice(0, 300)}`)
    }
  }

  return {
    /** Waits until every client has finished its current request. */
    async finish() {
      isOver = true
      giveUpAt = performance.now() + lastWishMs
      await Promise.all(running)
    },
  }
}

function anyOf<T>(list: T[]): T | undefined {
  return list[Math.floor(Math.random() * list.length)]
}
