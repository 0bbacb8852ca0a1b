import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { eventually } from './eventually.ts'
import type { ReadPoint, TestClient } from './http/client.ts'

/**
 * Clients like those of a training cluster: each sends batches of points and retries a batch with the same
 * `Idempotency-Key` until it is acknowledged. A ledger keeps the acknowledged points; reads must return exactly these.
 */
type Load = {
  client: TestClient
  experimentKey: string
  writers: number
  batches: number
  pointsPerBatch: number
  /** Called after every acknowledged batch. */
  onAcknowledged(points: number): void
}

type Acknowledged = { step: number; value: number; timestamp: number }

export type Ledger = Map<string, Acknowledged[]>

const retryPauseMs = 50

/** Runs the load to its end and returns the ledger: the acknowledged points of each writer's metric. */
export async function runLoad(load: Load): Promise<{ ledger: Ledger; refusals: Map<number, number> }> {
  const ledger: Ledger = new Map()
  const refusals = new Map<number, number>()
  let acknowledged = 0

  async function write(writer: number) {
    const metricName = `writer-${writer}`
    const points: Acknowledged[] = []
    ledger.set(metricName, points)
    for (let batch = 0; batch < load.batches; batch++) {
      const rows = Array.from({ length: load.pointsPerBatch }, (_, at) => ({
        step: batch * load.pointsPerBatch + at,
        value: Math.random() - 0.5,
        timestamp: 1_700_000_000_000 + batch,
      }))
      const metrics = rows.map(({ value, ...rest }) => ({ metricName, metricValue: value, ...rest }))
      await sendUntilAcknowledged({ experimentKey: load.experimentKey, metrics })
      points.push(...rows)
      acknowledged += rows.length
      load.onAcknowledged(acknowledged)
    }
  }

  async function sendUntilAcknowledged(body: unknown) {
    const headers = { 'idempotency-key': randomUUID() }
    for (;;) {
      const answer = await load.client.post('/write/experiment/metrics/batch', body, { headers }).catch(() => undefined)
      if (answer?.status === 200) return
      const status = answer?.status ?? 0
      refusals.set(status, (refusals.get(status) ?? 0) + 1)
      await sleep(retryPauseMs)
    }
  }

  await Promise.all(Array.from({ length: load.writers }, (_, writer) => write(writer)))
  return { ledger, refusals }
}

/** Waits until everything acknowledged can be read, then compares it point for point. */
export async function expectLedger(client: TestClient, experimentKey: string, ledger: Ledger): Promise<void> {
  for (const [metricName, acknowledged] of ledger) {
    const points = await eventually(async () => {
      const read = await client.readMetric(experimentKey, metricName)
      if (read.length < acknowledged.length)
        throw new Error(`${metricName}: ${read.length} of ${acknowledged.length} points`)
      return read
    }, 90_000)
    expect(points.map(toAcknowledged), metricName).toEqual(acknowledged)
  }
}

function toAcknowledged({ step, metricValue, timestamp }: ReadPoint): Acknowledged {
  return { step: step as number, value: Number(metricValue), timestamp }
}
