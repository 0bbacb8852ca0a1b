import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import type { StoreUrls } from '../../cli/settings.ts'
import { createClosers } from '../../store/closers.ts'
import { openQueueBackend } from '../../store/queue/queue-backend.ts'
import { eventually } from '../harness/eventually.ts'
import { availableQueues, openOwnStores, uniqueName } from '../harness/service.ts'

const closers = createClosers()
afterEach(() => closers.closeAll())

describe.each(availableQueues())('with the queue on %s', (queue) => {
  /** Some processes on one queue; what they do is told to `run`. */
  async function openErrands(count: number, run: (name: string) => Promise<void>) {
    const { postgresUrl, redisUrl }: StoreUrls = await openOwnStores(queue)
    const prefix = uniqueName('errands')
    const opened: { request(names: string[]): Promise<void>; close(): Promise<void> }[] = []
    for (let at = 0; at < count; at++) {
      const backend = openQueueBackend({ redisUrl, postgresUrl, prefix, onError: () => undefined })
      closers.push(() => backend.close())
      const errands = await backend.openErrands({ queue: 'errands', atOnce: 10, run, onError: () => undefined })
      closers.push(() => errands.close())
      opened.push(errands)
    }
    return {
      opened,
      request: async (names: string[]) => void (await Promise.all(opened.map((it) => it.request(names)))),
    }
  }

  it('of all processes one at a time does an errand of a name, however often it is requested', async () => {
    const underWay = new Map<string, number>()
    const done = new Map<string, number>()
    let most = 0
    const { request } = await openErrands(2, async (name) => {
      underWay.set(name, (underWay.get(name) ?? 0) + 1)
      most = Math.max(most, ...underWay.values())
      await sleep(5)
      underWay.set(name, (underWay.get(name) ?? 0) - 1)
      done.set(name, (done.get(name) ?? 0) + 1)
    })
    const names = Array.from({ length: 5 }, () => uniqueName('errand'))

    for (let times = 0; times < 10; times++) await request(names)

    await eventually(() => expect([...done.keys()].sort()).toEqual(names.toSorted()))
    expect(most).toBe(1)
  })

  it('an errand that is over can be requested again, also when it failed', async () => {
    let times = 0
    const { request } = await openErrands(1, async () => {
      times += 1
      throw new Error('failed')
    })

    for (let count = 1; count <= 3; count++) {
      await eventually(async () => {
        await request(['errand'])
        expect(times).toBeGreaterThanOrEqual(count)
      })
    }
  })

  it('an errand that is under way when it is requested is not kept for later', async () => {
    let times = 0
    const begun = Promise.withResolvers<void>()
    const end = Promise.withResolvers<void>()
    const { opened, request } = await openErrands(1, async () => {
      times += 1
      begun.resolve()
      await end.promise
    })
    await request(['errand'])
    await begun.promise
    await request(['errand', 'errand'])

    end.resolve()
    for (const it of opened) await it.close()

    expect(times).toBe(1)
  })
})
