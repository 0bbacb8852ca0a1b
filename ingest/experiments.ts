import { Refusal } from '../http/errors.ts'
import { createLookup } from '../http/lookup.ts'

/** An experiment that was moved or deleted is still written to for at most this long by a process that knows it. */
const freshForMs = 10_000
/** A key that was not there may be made the next moment. */
const absentForMs = 500
const experimentsMax = 200_000

/**
 * Finds the experiments that callers write to, without a query per point: answers are remembered for a short time, and
 * those already known go on working while Postgres is away.
 *
 * @param findId looks up an experiment that the user may write to
 */
export function createExperimentCheck(findId: (userId: string, key: string) => Promise<bigint | undefined>) {
  const lookUp = createLookup<bigint, { userId: string; key: string }>({
    find: (_id, { userId, key }) => findId(userId, key),
    freshForMs: { found: freshForMs, absent: absentForMs },
    entriesMax: experimentsMax,
  })

  /** @throws Refusal `experimentUnknown`, the same for absent and foreign ones */
  return async function findExperiment(userId: string, key: string): Promise<bigint> {
    const id = await lookUp(`${userId} ${key}`, { userId, key })
    if (id === undefined) throw unknownExperiment(key)
    return id
  }
}

function unknownExperiment(key: string): Refusal {
  return new Refusal('experimentUnknown', `There is no experiment ${key.slice(0, 60)} that this key may use.`)
}
