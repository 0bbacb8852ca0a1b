import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { afterEach, describe, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { openEmbeddedClickHouse } from '../../store/embedded/clickhouse.ts'
import { inForm, queuesInForm } from '../kit/form.ts'
import { createClient } from '../kit/http/client.ts'
import { expectLedger, runLoad } from '../kit/ledger.ts'
import { superviseRole } from '../kit/processes/supervised-role.ts'
import { createUser, openOwnStores, uniqueName } from '../kit/service.ts'

/**
 * Each role is a process of its own, as in production. While clients write, processes are ended one after
 * the other and started again, as a supervisor would.
 */
const load = { writers: 20, batches: inForm({ short: 12, middle: 16, long: 200 }), pointsPerBatch: 100 }
const pointsInAll = load.writers * load.batches * load.pointsPerBatch

const closers = createClosers()
afterEach(() => closers.closeAll())

async function openClickHouse() {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-flow-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const clickhouse = await openEmbeddedClickHouse({ folder, log: pino({ level: 'silent' }) })
  closers.push(() => clickhouse.close())
  return clickhouse
}

async function startCluster(queue: 'postgres' | 'redis', clickhouseUrl?: string) {
  const stores = await openOwnStores(queue, clickhouseUrl)
  const settings = { SVC_QUEUE_PREFIX: uniqueName('flow'), SVC_LOG_LEVEL: 'error' }
  const ingest = await superviseRole({ role: 'ingest', stores, settings, closers })
  const worker = await superviseRole({ role: 'worker', stores, settings, closers })
  const api = await superviseRole({ role: 'api', stores, settings, closers })
  const user = await createUser(stores)
  const reader = createClient(api.url, user)
  const experimentKey = await reader.createExperiment()
  return { ingest, worker, reader, writer: createClient(ingest.url, user), experimentKey }
}

/** Runs each step once, when its share of the load has been acknowledged. */
function atShares(steps: [share: number, step: () => Promise<unknown>][]) {
  const left = [...steps]
  const running: Promise<unknown>[] = []
  return {
    onAcknowledged(points: number) {
      while (left[0] && points >= left[0][0] * pointsInAll) running.push((left.shift() as (typeof steps)[number])[1]())
    },
    done: () => Promise.all(running),
  }
}

describe.each(queuesInForm())('with the queue in %s', (queue) => {
  it('SIGKILL of worker, ingest and ClickHouse under load loses none, repeats none, alters none', async () => {
    const clickhouse = await openClickHouse()
    const { ingest, worker, reader, writer, experimentKey } = await startCluster(queue, clickhouse.url)
    const kills = atShares([
      [0.15, () => worker.restart('SIGKILL')],
      [0.3, () => ingest.restart('SIGKILL')],
      [0.5, async () => process.kill(clickhouse.pid(), 'SIGKILL')],
      [0.7, () => Promise.all([ingest.restart('SIGKILL'), worker.restart('SIGKILL')])],
    ])

    const { ledger, refusals } = await runLoad({
      ...load,
      client: writer,
      experimentKey,
      onAcknowledged: kills.onAcknowledged,
    })
    await kills.done()

    // Connections that broke (0) and "not now" (503) are what a killed process may cost; never another answer.
    expect([...refusals.keys()].filter((status) => status !== 0 && status !== 503)).toEqual([])
    await expectLedger(reader, experimentKey, ledger)
  })

  it('SIGTERM of worker and ingest under load loses none, repeats none, and both end by themselves', async () => {
    const { ingest, worker, reader, writer, experimentKey } = await startCluster(queue)
    const ends: unknown[] = []
    const stops = atShares([
      [0.2, async () => ends.push(await worker.restart('SIGTERM'))],
      [0.4, async () => ends.push(await ingest.restart('SIGTERM'))],
      [0.6, async () => ends.push(await worker.restart('SIGTERM'), await ingest.restart('SIGTERM'))],
    ])

    const { ledger } = await runLoad({ ...load, client: writer, experimentKey, onAcknowledged: stops.onAcknowledged })
    await stops.done()

    expect(ends).toEqual(Array(4).fill({ code: 0, signal: null }))
    await expectLedger(reader, experimentKey, ledger)
  })
})
