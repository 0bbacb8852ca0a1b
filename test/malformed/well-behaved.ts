import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { eventually } from '../kit/eventually.ts'
import type { ReadPoint, TestClient } from '../kit/http/client.ts'

/**
 * A client with valid requests only: it writes points, reads them back and keeps a ledger of the acknowledged ones. None of
 * its requests may fail, and none of its points may be missing.
 */
type Acknowledged = { step: number; value: number; timestamp: number }

const writers = 2
/** Keeps its share of the load small. */
const pauseMs = 250
const batchesPerSeries = 5
const pointsPerBatch = 20
const errorsKept = 5

export async function startWellBehaved(client: TestClient, workspaceName: string) {
  const experimentKey = await client.createExperiment({ workspaceName })
  const ledger = new Map<string, Acknowledged[]>()
  const errors: string[] = []
  const tookMs: number[] = []
  let reads = 0
  let isStopping = false

  async function writeSeries(metricName: string) {
    const acknowledged: Acknowledged[] = []
    ledger.set(metricName, acknowledged)
    for (let batch = 0; batch < batchesPerSeries; batch++) {
      const points = Array.from({ length: pointsPerBatch }, (_, at) => ({
        step: batch * pointsPerBatch + at,
        value: Math.random() - 0.5,
        timestamp: 1_700_000_000_000 + batch,
      }))
      const metrics = points.map(({ value, ...place }) => ({ metricName, metricValue: value, ...place }))
      const headers = { 'idempotency-key': randomUUID() }
      const sentAt = performance.now()
      const answer = await client.post('/write/experiment/metrics/batch', { experimentKey, metrics }, { headers })
      tookMs.push(performance.now() - sentAt)
      if (answer.status !== 200) throw new Error(`a valid write was answered ${answer.status}: ${answer.text}`)
      acknowledged.push(...points)
    }
  }

  /** Waits for missing points; those that are there must be right. */
  async function readSeries(metricName: string) {
    const acknowledged = ledger.get(metricName) as Acknowledged[]
    const query = new URLSearchParams({ experimentKey, metricName })
    const answer = await eventually(async () => {
      reads++
      const it = await client.get(`/experiment/metrics/get-metric?${query}`)
      const count = (it.body.metrics as ReadPoint[] | undefined)?.length ?? 0
      if (it.status === 200 && count < acknowledged.length) throw new Error(`${count} of ${acknowledged.length} points`)
      return it
    })
    if (answer.status !== 200) throw new Error(`a valid read was answered ${answer.status}: ${answer.text}`)
    const read = (answer.body.metrics as ReadPoint[]).map((it) => ({
      step: it.step,
      value: Number(it.metricValue),
      timestamp: it.timestamp,
    }))
    if (!isDeepStrictEqual(read, acknowledged)) throw new Error('what was read is not what was acknowledged')
  }

  async function tell(metricName: string, work: Promise<void>) {
    await work.catch((error) => {
      if (errors.length < errorsKept) errors.push(`${metricName}: ${error instanceof Error ? error.message : error}`)
    })
  }

  async function run(writer: number) {
    for (let series = 0; !isStopping; series++) {
      const metricName = `writer-${writer}-${series}`
      await tell(
        metricName,
        writeSeries(metricName).then(() => readSeries(metricName)),
      )
      await sleep(pauseMs)
    }
  }

  const running = Promise.all(Array.from({ length: writers }, (_, writer) => run(writer)))

  return {
    /** Ends after the current series, reads the whole ledger once more and reports. */
    async finish() {
      isStopping = true
      await running
      for (const metricName of ledger.keys()) await tell(metricName, readSeries(metricName))
      tookMs.sort((a, b) => a - b)
      return {
        writes: tookMs.length,
        reads,
        points: [...ledger.values()].reduce((sum, it) => sum + it.length, 0),
        p50Ms: tookMs[Math.floor(tookMs.length / 2)] ?? Number.NaN,
        p99Ms: tookMs[Math.floor(tookMs.length * 0.99)] ?? Number.NaN,
        errors,
      }
    },
  }
}
