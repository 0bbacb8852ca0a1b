import type { SeriesTotals } from '../store/clickhouse/series-counts.ts'

type CountSeries = (experimentIds: bigint[]) => Promise<Map<bigint, SeriesTotals>>

const experimentsPerQuestion = 1_000

/**
 * Asks how large experiments are. Questions that come while one is under way are asked together in the next: when ten
 * thousand experiments begin at once, ten questions are asked.
 */
export function createSeriesCensus(countSeries: CountSeries) {
  let next: { ids: Set<bigint>; answer: Promise<Map<bigint, SeriesTotals>> } | undefined
  let underWay: Promise<unknown> = Promise.resolve()

  function open() {
    const ids = new Set<bigint>()
    const answer = underWay.then(() => {
      if (next?.ids === ids) next = undefined
      return countSeries([...ids])
    })
    underWay = answer.catch(() => undefined)
    return { ids, answer }
  }

  return async function askTotals(experimentId: bigint): Promise<SeriesTotals> {
    if (!next || next.ids.size >= experimentsPerQuestion) next = open()
    next.ids.add(experimentId)
    return (await next.answer).get(experimentId) ?? { series: 0, pointsMost: 0 }
  }
}
