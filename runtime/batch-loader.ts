const idsPerQuestion = 1_000

/**
 * Asks a store about many things at once. What is asked for while a question is under way is asked together in the next:
 * when ten thousand callers come at once, ten questions are asked, one after the other.
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
    if (!next || next.ids.size >= idsPerQuestion) next = open()
    next.ids.add(id)
    return (await next.answers).get(id)
  }
}
