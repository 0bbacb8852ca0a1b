import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { paceStream, type TakeSlice } from '../../../store/clickhouse/paced-stream.ts'

const { signal } = new AbortController()
const chunks = Array.from({ length: 300 }, (_, at) => Buffer.alloc(10_000, at))

it('has all bytes in order, whenever its slices come', async () => {
  let slices = 0
  const takeSlice: TakeSlice = async () => {
    slices++
    await new Promise((resolve) => setImmediate(resolve))
    return () => undefined
  }
  const paced = paceStream(Readable.from(chunks, { objectMode: false }), takeSlice, signal)
  expect((await buffer(paced)).equals(Buffer.concat(chunks))).toBe(true)
  expect(slices).toBeGreaterThan(0)
})

it('reads nothing until it has a slice', async () => {
  const { promise, resolve } = Promise.withResolvers<() => void>()
  let read = 0
  const source = Readable.from(
    (function* () {
      for (const it of chunks) {
        read++
        yield it
      }
    })(),
    { objectMode: false },
  )
  const whole = buffer(paceStream(source, () => promise, signal))
  await new Promise((resolve) => setImmediate(resolve))
  // What the stream itself keeps ready.
  expect(read).toBeLessThan(20)
  resolve(() => undefined)
  expect((await whole).equals(Buffer.concat(chunks))).toBe(true)
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
  await expect(buffer(paceStream(failing, takeSlice, signal))).rejects.toThrow('broken')

  const endless = new Readable({ read() {} })
  endless.push('a')
  const paced = paceStream(endless, takeSlice, signal)
  await new Promise((resolve) => paced.once('readable', resolve))
  paced.destroy()
  endless.push('b')
  await new Promise((resolve) => endless.once('close', resolve))
  expect(endless.destroyed).toBe(true)
})
