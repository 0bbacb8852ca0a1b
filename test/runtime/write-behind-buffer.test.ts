import { expect, it } from 'vitest'
import { createWriteBehindBuffer } from '../../runtime/write-behind-buffer.ts'
import { eventually } from '../kit/eventually.ts'

type Entry = { id: string; count: number }

function openGatherer(write: (entries: Entry[]) => Promise<void>, everyMs = 60_000) {
  const errors: unknown[] = []
  const gatherer = createWriteBehindBuffer<Entry>({
    idOf: (it) => it.id,
    merge(known, more) {
      known.count += more.count
    },
    write,
    everyMs,
    onError: (error) => errors.push(error),
  })
  return { gatherer, errors }
}

it('entries of one key are merged, and close writes the rest', async () => {
  const written: Entry[][] = []
  const { gatherer } = openGatherer(async (entries) => void written.push(entries))
  for (let at = 0; at < 1_000; at++) gatherer.add({ id: at % 2 === 0 ? 'a' : 'b', count: 1 })
  await gatherer.close()
  expect(written).toEqual([
    [
      { id: 'a', count: 500 },
      { id: 'b', count: 500 },
    ],
  ])
})

it('entries of a failed write are written again, merged with newer ones', async () => {
  const written: Entry[][] = []
  let isAway = true
  const { gatherer, errors } = openGatherer(async (entries) => {
    if (isAway) throw new Error('away')
    written.push(entries)
  }, 5)
  gatherer.add({ id: 'a', count: 1 })
  await eventually(() => expect(errors.length).toBeGreaterThan(1))
  gatherer.add({ id: 'a', count: 2 })
  isAway = false
  await eventually(() => expect(written).toEqual([[{ id: 'a', count: 3 }]]))
  await gatherer.close()
})
