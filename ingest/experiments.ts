import { restrictedAccount, unknownExperiment } from '../http/errors.ts'
import { createLookup } from '../http/lookup.ts'
import { whenKnown } from '../http/when-known.ts'
import type { SoughtExperiment, WritableExperiment } from '../store/postgres/experiments.ts'

/**
 * An experiment that was moved or deleted is still written to for at most this long by a process that knows it; limits
 * that an admin changes hold after it at the latest.
 */
const freshForMs = 10_000
/** A key that was not there may be made the next moment. */
const absentForMs = 500
const experimentsMax = 200_000

type Find = (userId: string, key: string) => Promise<SoughtExperiment | undefined>

/**
 * Finds the experiments that callers write to, without a query per point: answers are remembered for a short time, and
 * those already known go on working while Postgres is away.
 *
 * @param find looks up an experiment that the user may write to, or that is kept from a restricted service account
 */
export function createExperimentCheck(find: Find) {
  const lookUp = createLookup<SoughtExperiment, { userId: string; key: string }>({
    find: (_id, { userId, key }) => find(userId, key),
    freshForMs: { found: freshForMs, absent: absentForMs },
    entriesMax: experimentsMax,
  })

  /** @throws Refusal `experimentUnknown`, the same for absent and foreign ones; `accountRestricted` */
  return function findExperiment(userId: string, key: string): WritableExperiment | Promise<WritableExperiment> {
    return whenKnown(lookUp(`${userId} ${key}`, { userId, key }), (experiment) => {
      if (!experiment) throw unknownExperiment(key)
      if (experiment.isWithheld) throw restrictedAccount()
      return experiment
    })
  }
}
