import { restrictedAccount, unknownExperiment } from '../http/errors.ts'
import { createBatchLoader } from '../runtime/batch-loader.ts'
import { createLruCache } from '../runtime/lru-cache.ts'
import { mapMaybeAsync } from '../runtime/map-maybe-async.ts'
import { createReadThroughCache } from '../runtime/read-through-cache.ts'
import type { SoughtExperiment, WritableExperiment } from '../store/postgres/experiments/experiments.ts'

/**
 * An experiment that was moved or deleted is still written to for at most this long by a process that knows it; limits
 * that an admin changes hold after it at the latest.
 */
const freshForMs = 10_000
/** A key that was not there may be made the next moment. */
const absentForMs = 500
const experimentsMax = 200_000

const usersMax = 10_000

type Find = (userId: string, keys: string[]) => Promise<Map<string, SoughtExperiment>>

/**
 * Finds the experiments that callers write to, without a query per point: answers are remembered for a short time, and
 * those already known go on working while Postgres is away. What one user asks for at the same time is one query: of what
 * one costs, finding the rows is the least.
 *
 * @param find looks up experiments that the user may write to, or that are kept from a restricted service account
 */
export function createExperimentCheck(find: Find) {
  const ofUsers = createLruCache<(key: string) => Promise<SoughtExperiment | undefined>>(usersMax)

  function askFor(userId: string, key: string): Promise<SoughtExperiment | undefined> {
    let ofUser = ofUsers.get(userId)
    if (!ofUser) {
      ofUser = createBatchLoader((keys: string[]) => find(userId, keys))
      ofUsers.set(userId, ofUser)
    }
    return ofUser(key)
  }

  const lookUp = createReadThroughCache<SoughtExperiment, { userId: string; key: string }>({
    find: (_id, { userId, key }) => askFor(userId, key),
    freshForMs: { found: freshForMs, absent: absentForMs },
    entriesMax: experimentsMax,
  })

  /** @throws HttpError `experimentUnknown`, the same for absent and foreign ones; `accountRestricted` */
  return function findExperiment(userId: string, key: string): WritableExperiment | Promise<WritableExperiment> {
    return mapMaybeAsync(lookUp(`${userId} ${key}`, { userId, key }), (experiment) => {
      if (!experiment) throw unknownExperiment(key)
      if (experiment.isWithheld) throw restrictedAccount()
      return experiment
    })
  }
}
