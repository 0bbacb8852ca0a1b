import { afterEach, describe, expect, it } from 'vitest'
import { createClosers } from '../../runtime/closers.ts'
import { form, inForm } from '../kit/form.ts'
import { hasRedisServer } from '../kit/stores/redis.ts'
import { NoSmallDisk } from '../kit/stores/small-disk.ts'
import { type OutageName, outages } from './cluster/outages.ts'
import { listOutageFaults, runOutage } from './outage/run.ts'

/** The short form of `npm run outage`: nothing here is about speed. */
const closers = createClosers()
afterEach(() => closers.closeAll())

const silent = { show: () => undefined, say: () => undefined }
const canHold = process.platform === 'linux'
if (!canHold) console.warn('Stores were not taken away under load: this needs Linux.')
if (!hasRedisServer()) console.warn('Redis was not taken away under load: there is no redis-server on the PATH.')
// In each form `test/flow/03` takes every store away, without load, and `test/flow/02` kills ClickHouse under load.
const names = inForm<OutageName[]>({
  short: [],
  middle: ['disk'],
  long: ['disk', 'redis', 'redis-restart', 'clickhouse'],
}).filter((it) => hasRedisServer() || !outages[it].needsRedis)

describe.skipIf(!canHold || form === 'short')('an outage under steady load loses nothing that was acknowledged', () => {
  it.for(names)('%s', async (store, context) => {
    const queue = outages[store].needsRedis ? 'redis' : 'postgres'
    const { signal } = new AbortController()
    try {
      const result = await runOutage({
        store,
        queue,
        minutes: inForm({ short: 0, middle: 0.05, long: 1 }),
        rate: 1_000,
        batch: 50,
        clients: 2,
        closers,
        status: silent,
        signal,
      })
      expect(listOutageFaults(result, { withSpeed: false })).toEqual([])
      expect(result.acknowledged).toBeGreaterThan(0)
    } catch (error) {
      if (!(error instanceof NoSmallDisk)) throw error
      context.skip(error.message)
    }
  })
})
