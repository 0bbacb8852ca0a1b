import { createBatchLoader } from '../../runtime/batch-loader.ts'
import type { PointForms } from '../../store/point-forms.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { noteForm, type WritableExperiment } from '../../store/postgres/experiments/experiments.ts'

/**
 * Notes in Postgres that an experiment has points in a form, before the first of them is queued: reads look for no others. Once for
 * each experiment; those that come at once share a statement.
 */
export function createFormNotes(queries: Queries) {
  const createLoader = (form: keyof PointForms) =>
    createBatchLoader(async (ids: bigint[]) => {
      await noteForm(queries, form, ids)
      return new Map<bigint, never>()
    })
  const loaders = { hasRows: createLoader('hasRows'), hasChunks: createLoader('hasChunks') }
  return async (experiment: WritableExperiment, form: keyof PointForms): Promise<void> => {
    await loaders[form](experiment.id)
    // What was found is kept for some seconds.
    experiment[form] = true
  }
}
