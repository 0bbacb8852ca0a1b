import { setImmediate } from 'node:timers/promises'
import { SearchTooSlow } from './search-error.ts'

const turnMs = 10
const msMax = 10_000
const itemsAtOnce = 16

/**
 * The items that are chosen. A test may be slow and the items many, so other requests of the process get their turn between.
 *
 * @throws SearchTooSlow when it takes ten seconds of CPU
 */
export async function choose<T>(items: T[], isChosen: (item: T) => boolean): Promise<T[]> {
  const chosen: T[] = []
  let begunAt = performance.now()
  let spentMs = 0
  for (let from = 0; from < items.length; from += itemsAtOnce) {
    for (const it of items.slice(from, from + itemsAtOnce)) if (isChosen(it)) chosen.push(it)
    const tookMs = performance.now() - begunAt
    if (tookMs < turnMs) continue
    spentMs += tookMs
    if (spentMs > msMax) throw new SearchTooSlow(`takes more than ${msMax / 1_000} s`)
    await setImmediate()
    begunAt = performance.now()
  }
  return chosen
}
