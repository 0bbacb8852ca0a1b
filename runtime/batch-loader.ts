import { AsyncLocalStorage } from 'node:async_hooks'

const idsPerQuery = 1_000

/**
 * Loads many things with one query. Ids that are requested while a query runs go into the next one together: ten thousand
 * callers at once make ten queries, one after the other. A query is of none of them: it runs in the context that the loader was made
 * in, takes the place of no tenant, and does not end when a caller leaves.
 */
export function createBatchLoader<Id, Answer>(ask: (ids: Id[]) => Promise<Map<Id, Answer>>) {
  const ofNobody = AsyncLocalStorage.snapshot()
  let next: { ids: Set<Id>; answers: Promise<Map<Id, Answer>> } | undefined
  let underWay: Promise<unknown> = Promise.resolve()

  function open() {
    const ids = new Set<Id>()
    const answers = underWay.then(() => {
      if (next?.ids === ids) next = undefined
      return ofNobody(ask, [...ids])
    })
    underWay = answers.catch(() => undefined)
    return { ids, answers }
  }

  return async function askFor(id: Id): Promise<Answer | undefined> {
    if (!next || next.ids.size >= idsPerQuery) next = open()
    next.ids.add(id)
    return (await next.answers).get(id)
  }
}
