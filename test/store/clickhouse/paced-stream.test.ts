import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { toClickHouse } from '../../../cli/settings.ts'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { paceStream, type TakeSlice } from '../../../store/clickhouse/paced-stream.ts'
import { eventually } from '../../kit/eventually.ts'
import { storesWith } from '../../kit/service.ts'

const { signal } = new AbortController()
/** More than the system buffers. */
const chunks = Array.from({ length: 300 }, (_, at) => Buffer.alloc(100_000, at))
const endFirst = () => undefined

it('has all bytes in order, whenever its slices come', async () => {
  let slices = 0
  const takeSlice: TakeSlice = async () => {
    slices++
    await new Promise((resolve) => setImmediate(resolve))
    return () => undefined
  }
  const paced = paceStream(Readable.from(chunks, { objectMode: false }), { takeSlice, endFirst, signal })
  expect((await buffer(paced)).equals(Buffer.concat(chunks))).toBe(true)
  expect(slices).toBeGreaterThan(0)
})

it('has its first slice until it was read beyond what the system buffers, and then reads nothing until it has another', async () => {
  const { promise, resolve } = Promise.withResolvers<() => void>()
  let read = 0
  let readAtEnd = 0
  const source = Readable.from(
    (function* () {
      for (const it of chunks) {
        read++
        yield it
      }
    })(),
    { objectMode: false },
  )
  const first = () => {
    readAtEnd ||= read
  }
  const whole = buffer(paceStream(source, { takeSlice: () => promise, endFirst: first, signal }))
  await eventually(() => expect(readAtEnd).toBeGreaterThan(160))
  await new Promise((resolve) => setImmediate(resolve))
  // And what the stream itself keeps ready.
  expect(read).toBeLessThan(200)
  resolve(() => undefined)
  expect((await whole).equals(Buffer.concat(chunks))).toBe(true)
})

it('an export of given rows needs no slice, which the queries that give them may be waiting for', async () => {
  const clickhouse = openClickHouse({
    ...toClickHouse(storesWith('postgres')),
    slices: () => () => Promise.reject(new Error('not asked for')),
  })
  const given = { structure: 'x UInt8', lines: Readable.from(['{"x":1}\n{"x":2}\n'], { objectMode: false }) }
  const whole = { isWhole: true, signal }
  const { stream } = await clickhouse.streamExport('SELECT sum(x) FROM given FORMAT CSV', { ...whole, given })
  expect(String(await buffer(stream))).toBe('3\n')
  await expect(clickhouse.streamExport('SELECT 1 FORMAT CSV', whole)).rejects.toThrow('not asked for')
  await clickhouse.close()
})

it('gives its first slice back when it has ended, failed or been destroyed', async () => {
  const takeSlice: TakeSlice = () => Promise.reject(new Error('not asked for'))
  const pace = (stream: Readable) => {
    let ended = 0
    return { paced: paceStream(stream, { takeSlice, endFirst: () => ended++, signal }), hasEnded: () => ended > 0 }
  }
  const short = pace(Readable.from([chunks[0]], { objectMode: false }))
  await buffer(short.paced)
  expect(short.hasEnded()).toBe(true)

  const unread = pace(new Readable({ read() {} }))
  unread.paced.destroy()
  await eventually(() => expect(unread.hasEnded()).toBe(true))
})

it('fails with the error of the stream, and destroys it when it is destroyed', async () => {
  const takeSlice: TakeSlice = async () => () => undefined
  const failing = Readable.from(
    (async function* () {
      yield chunks[0]
      throw new Error('broken')
    })(),
    { objectMode: false },
  )
  await expect(buffer(paceStream(failing, { takeSlice, endFirst, signal }))).rejects.toThrow('broken')

  const endless = new Readable({ read() {} })
  endless.push('a')
  const paced = paceStream(endless, { takeSlice, endFirst, signal })
  await new Promise((resolve) => paced.once('readable', resolve))
  paced.destroy()
  endless.push('b')
  await new Promise((resolve) => endless.once('close', resolve))
  expect(endless.destroyed).toBe(true)
})
