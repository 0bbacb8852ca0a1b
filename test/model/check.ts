import fc from 'fast-check'
import type { TestClient } from '../kit/http/client.ts'
import { playSequence } from './play.ts'
import { sequences } from './sequence.ts'

type Settings = {
  client: TestClient
  count: number
  seed: number
  /** The path of a reported counterexample: plays only that one. */
  path?: string
  onPlayed?(): void
}

/** Sequences played at once, each on its own experiment; most of the time they wait. */
const lanesMax = 50

/**
 * Plays sequences until one differs from the model. Each lane draws from its own seed, so that fast-check can shrink and
 * repeat a counterexample alone.
 *
 * @throws Error with the smallest counterexample and the command that repeats it
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
