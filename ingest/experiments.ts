import { restrictedAccount, unknownExperiment } from '../http/errors.ts'
import { createBatchLoader } from '../runtime/batch-loader.ts'
import { createLruCache } from '../runtime/lru-cache.ts'
import { mapMaybeAsync } from '../runtime/map-maybe-async.ts'
import { createReadThroughCache } from '../runtime/read-through-cache.ts'
import type { SoughtExperiment, WritableExperiment } from '../store/postgres/experiments/experiments.ts'

/** For at most this long a moved or deleted experiment can still be written to, and old limits apply. */
const freshForMs = 10_000
/** A missing experiment may be created at any moment. */
const absentForMs = 500
const experimentsMax = 200_000

const usersMax = 10_000

type Find = (userId: string, keys: string[]) => Promise<Map<string, SoughtExperiment>>

/**
 * Finds the experiments that callers write to. Results are cached, so that points need no query each, and cached experiments
 * still work while Postgres is down. Concurrent lookups of one user share one query: the fixed cost of a query is most of it.
 *
 * @param find looks up experiments that the user may write to; `isWithheld` if a restricted service account may not use one
 */
export function createExperimentCheck(find: Find) {
  const loaders = createLruCache<(key: string) => Promise<SoughtExperiment | undefined>>(usersMax)

  function load(userId: string, key: string): Promise<SoughtExperiment | undefined> {
    let loader = loaders.get(userId)
    if (!loader) {
      loader = createBatchLoader((keys: string[]) => find(userId, keys))
      loaders.set(userId, loader)
    }
    return loader(key)
  }

  const lookUp = createReadThroughCache<SoughtExperiment, { userId: string; key: string }>({
    find: (_id, { userId, key }) => load(userId, key),
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
