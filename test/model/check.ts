import fc from 'fast-check'
import type { TestClient } from '../kit/http/client.ts'
import { playSequence } from './play.ts'
import { sequences } from './sequence.ts'

type Settings = {
  client: TestClient
  count: number
  seed: number
  /** Of a counterexample that was told: only that one is played. */
  path?: string
  onPlayed?(): void
}

/** Sequences that are played at once, each on an experiment of its own; most of their time is waiting for others. */
const lanesMax = 50

/**
 * Plays sequences until one does not end as the model says. Each lane draws its own from a seed of its own, so that a
 * counterexample is shrunk and repeated by itself.
 *
 * @throws Error with the smallest counterexample found, and how to repeat it
 */
export async function checkSequences({ client, count, seed, path, onPlayed }: Settings): Promise<void> {
  const lanes = path === undefined ? Math.min(lanesMax, count) : 1
  let hasFailed = false
  const property = fc.asyncProperty(sequences, async (sequence) => {
    await playSequence(client, sequence)
    onPlayed?.()
  })

  async function runLane(lane: number) {
    const numRuns = Math.floor(count / lanes) + (lane < count % lanes ? 1 : 0)
    const outcome = await fc.check(property, {
      numRuns: path === undefined ? numRuns : 1,
      seed: seed + lane,
      path,
      includeErrorInReport: true,
    })
    if (!outcome.failed || hasFailed) return
    hasFailed = true
    const again = `npm run model -- --seed ${outcome.seed} --path ${outcome.counterexamplePath}`
    throw new Error(`${fc.defaultReportMessage(outcome)}\n\nAgain: ${again}`)
  }

  await Promise.all(Array.from({ length: lanes }, (_, lane) => runLane(lane)))
}
