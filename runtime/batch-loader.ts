const idsPerQuery = 1_000

/**
 * Loads many things with one query. Ids that are requested while a query runs go into the next one together: ten thousand
 * callers at once make ten queries, one after the other.
 */
export function createBatchLoader<Id, Answer>(ask: (ids: Id[]) => Promise<Map<Id, Answer>>) {
  let next: { ids: Set<Id>; answers: Promise<Map<Id, Answer>> } | undefined
  let underWay: Promise<unknown> = Promise.resolve()

  function open() {
    const ids = new Set<Id>()
    const answers = underWay.then(() => {
      if (next?.ids === ids) next = undefined
      return ask([...ids])
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
