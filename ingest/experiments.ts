import { LRUCache } from 'lru-cache'
import { Refusal } from '../http/errors.ts'

/** An experiment that was moved or deleted is still written to for at most this long by a process that knows it. */
const freshForMs = 10_000
/** A key that was not there may be made the next moment. */
const absentForMs = 500
const experimentsMax = 200_000

type Found = { id: bigint | undefined }

/**
 * Finds the experiments that callers write to, without a query per point: answers are remembered for a short time, and
 * those already known go on working while Postgres is away.
 *
 * @param findId looks up an experiment that the user may write to
 */
export function createExperimentCheck(findId: (userId: string, key: string) => Promise<bigint | undefined>) {
  const known = new LRUCache<string, Found, { userId: string; key: string }>({
    max: experimentsMax,
    allowStaleOnFetchRejection: true,
    noDeleteOnFetchRejection: true,
    noDeleteOnStaleGet: true,
    fetchMethod: async (_id, _stale, { options, context }) => {
      const id = await findId(context.userId, context.key)
      options.ttl = id === undefined ? absentForMs : freshForMs
      return { id }
    },
  })

  /** @throws Refusal `experimentUnknown`, the same for absent and foreign ones */
  return async function findExperiment(userId: string, key: string): Promise<bigint> {
    const cacheKey = `${userId} ${key}`
    const found = known.get(cacheKey) ?? (await known.fetch(cacheKey, { context: { userId, key } }))
    if (found?.id === undefined) throw unknownExperiment(key)
    return found.id
  }
}

function unknownExperiment(key: string): Refusal {
  return new Refusal('experimentUnknown', `There is no experiment ${key.slice(0, 60)} that this key may use.`)
}
