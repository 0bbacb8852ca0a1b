import { needsEditor, unknownExperiment, withheldFrom } from '../http/errors.ts'
import type { Caller } from '../http/route.ts'
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

const callersMax = 10_000

type Find = (viewerId: string, keys: string[]) => Promise<Map<string, SoughtExperiment>>

/**
 * Finds the experiments that callers write to. Results are cached, so that points need no query each, and cached experiments
 * still work while Postgres is down. Concurrent lookups of one caller share one query: the fixed cost of a query is most of it.
 *
 * @param find looks up experiments that the caller may write to, or know why not
 */
export function createExperimentCheck(find: Find) {
  const loaders = createLruCache<(key: string) => Promise<SoughtExperiment | undefined>>(callersMax)

  function load(viewerId: string, key: string): Promise<SoughtExperiment | undefined> {
    let loader = loaders.get(viewerId)
    if (!loader) {
      loader = createBatchLoader((keys: string[]) => find(viewerId, keys))
      loaders.set(viewerId, loader)
    }
    return loader(key)
  }

  const lookUp = createReadThroughCache<SoughtExperiment, { viewerId: string; key: string }>({
    find: (_id, { viewerId, key }) => load(viewerId, key),
    freshForMs: { found: freshForMs, absent: absentForMs },
    entriesMax: experimentsMax,
  })

  /** @throws HttpError `experimentUnknown`, the same for absent and foreign ones; `experimentReadOnly`, `accountRestricted`, `keyRestricted` */
  return function findExperiment(caller: Caller, key: string): WritableExperiment | Promise<WritableExperiment> {
    const { viewerId } = caller
    return mapMaybeAsync(lookUp(`${viewerId} ${key}`, { viewerId, key }), (experiment) => {
      if (!experiment) throw unknownExperiment(key)
      if (experiment.refusal === 'withheld') throw withheldFrom(caller)
      if (experiment.refusal) throw needsEditor('experimentReadOnly', 'experiment', experiment.workspaceName)
      return experiment
    })
  }
}
