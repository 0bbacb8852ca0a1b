import { expect, it } from 'vitest'
import { createTurns } from '../../http/body/turns.ts'

const large = 16 * 1024

it('larger bodies take turns, those of a caller with many as one of another, and the event loop goes round in between', async () => {
  const turns = createTurns()
  const order: string[] = []
  const take = (lane: string) => turns.take(lane, large)?.then(() => order.push(lane))
  const all = [take('greedy'), take('greedy'), take('greedy'), take('quiet'), take('greedy')]
  let rounds = 0
  const countRounds = () => {
    order.push(`round ${++rounds}`)
    if (rounds < 5) setImmediate(countRounds)
  }
  setImmediate(countRounds)
  await Promise.all(all)

  expect(order.filter((it) => !it.startsWith('round'))).toEqual(['greedy', 'quiet', 'greedy', 'greedy', 'greedy'])
  const places = order.flatMap((it, at) => (it.startsWith('round') ? [] : [at]))
  for (const [at, place] of places.entries()) if (at > 0) expect(place - (places[at - 1] as number)).toBeGreaterThan(1)
})

it('a small body does not wait', () => {
  expect(createTurns().take('quiet', large - 1)).toBeUndefined()
})
