import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import type { StoreUrls } from '../../../cli/settings.ts'
import { createClosers } from '../../../runtime/closers.ts'
import { openQueueBackend } from '../../../store/queue/open-queue.ts'
import { eventually } from '../../kit/eventually.ts'
import { availableQueues, openOwnStores, uniqueName } from '../../kit/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

describe.each(availableQueues())('with the queue on %s', (queue) => {
  /** Some processes on one queue; what they do is told to `run`. */
  async function openJobs(count: number, run: (name: string) => Promise<void>) {
    const { postgresUrl, redisUrl }: StoreUrls = await openOwnStores(queue)
    const prefix = uniqueName('jobs')
    const opened: { request(names: string[]): Promise<void>; close(): Promise<void> }[] = []
    for (let at = 0; at < count; at++) {
      const backend = openQueueBackend({ redisUrl, postgresUrl, prefix, onError: () => undefined })
      closers.push(() => backend.close())
      const jobs = await backend.openNamedJobs({ queue: 'jobs', jobsAtOnce: 10, run, onError: () => undefined })
      closers.push(() => jobs.close())
      opened.push(jobs)
    }
    return {
      opened,
      request: async (names: string[]) => void (await Promise.all(opened.map((it) => it.request(names)))),
    }
  }

  it('each job runs in one of the processes, once for several requests', async () => {
    const done = new Map<string, number>()
    const { request } = await openJobs(2, async (name) => {
      await sleep(5)
      done.set(name, (done.get(name) ?? 0) + 1)
    })
    const names = Array.from({ length: 5 }, () => uniqueName('job'))

    await Promise.all(Array.from({ length: 40 }, () => request(names)))

    await eventually(() => expect([...done.keys()].sort()).toEqual(names.toSorted()))
    for (const times of done.values()) expect(times).toBeLessThan(80)
  })

  it('a finished or failed job can be requested again', async () => {
    let times = 0
    const { request } = await openJobs(1, async () => {
      times += 1
      throw new Error('failed')
    })

    for (let count = 1; count <= 3; count++) {
      await eventually(async () => {
        await request(['job'])
        expect(times).toBeGreaterThanOrEqual(count)
      })
    }
  })
})
