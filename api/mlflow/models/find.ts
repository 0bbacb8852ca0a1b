import { HttpError } from '../../../http/errors.ts'
import type { Database } from '../../../store/postgres/database.ts'
import { findLoggedModel, type LoggedModel } from '../../../store/postgres/mlflow/logged-models.ts'
import type { MlflowRun } from '../../../store/postgres/mlflow/runs.ts'
import { toViewer } from '../../access.ts'
import type { ExperimentFinder, MlflowCall } from '../find.ts'

export type LoggedModelFinder = ReturnType<typeof createLoggedModelFinder>

/** Finds models that runs have logged. */
export function createLoggedModelFinder({ database, find }: { database: Database; find: ExperimentFinder }) {
  /** @throws HttpError `modelUnknown` */
  async function readable(
    { caller }: MlflowCall,
    id: string,
    { orDeleted = false }: { orDeleted?: boolean } = {},
  ): Promise<LoggedModel> {
    const found = await findLoggedModel(database, toViewer(caller), id)
    if (found && (orDeleted || !found.isDeleted)) return found
    throw new HttpError('modelUnknown', `model_id: there is no logged model ${id.slice(0, 200)} that this key may use.`)
  }

  return {
    readable,

    /** A model that the caller may change, with its run, which is not deleted. */
    async writable(call: MlflowCall, id: string): Promise<{ model: LoggedModel; run: MlflowRun }> {
      const model = await readable(call, id)
      return { model, run: await find.activeRun(call, model.runKey) }
    },
  }
}
