import { setTimeout as sleep } from 'node:timers/promises'
import type { GreedyOrder, GreedyReport } from './start-greedy.ts'

/**
 * The process of a tenant that takes all it can get: reads, exports and live streams, each in loops that never wait longer than a
 * moment when they are refused. Ends with its parent.
 */
process.on('message', (order: GreedyOrder) => {
  run(order).then(
    (report) => process.send?.(report),
    (error) => {
      process.stderr.write(`${error}\n`)
      process.exit(1)
    },
  )
})

process.on('disconnect', () => process.exit())

const refusedPauseMs = 200

async function run({ url, apiKey, seconds, reads, exports, streams }: GreedyOrder): Promise<GreedyReport> {
  const report: GreedyReport = { reads: 0, exports: 0, streams: 0, refused: 0, failed: 0 }
  const stop = new AbortController()

  async function repeat(path: string, isDone: () => void): Promise<void> {
    while (!stop.signal.aborted) {
      try {
        const answer = await fetch(`${url}/api/rest/v2/${path}`, {
          headers: { authorization: apiKey },
          signal: stop.signal,
        })
        if (answer.status === 200) isDone()
        for await (const _ of answer.body ?? []) {
          // Only read.
        }
        if (answer.status === 429) report.refused++
        else if (answer.status !== 200) report.failed++
        if (answer.status !== 200) await sleep(refusedPauseMs)
      } catch (error) {
        if (!stop.signal.aborted) throw error
      }
    }
  }

  const loops = [
    ...Array.from({ length: reads.loops }, () => repeat(reads.path, () => report.reads++)),
    ...Array.from({ length: exports.loops }, () => repeat(exports.path, () => report.exports++)),
    ...Array.from({ length: streams.loops }, () => repeat(streams.path, () => report.streams++)),
  ]
  await Promise.race([sleep(seconds * 1_000), ...loops])
  stop.abort()
  await Promise.all(loops)
  return report
}
