import type { IncomingHttpHeaders } from 'node:http'
import { HttpError, needsEditor, unknownExperiment } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  findMlflowExperiment,
  findMlflowExperimentByName,
  type MlflowExperiment,
} from '../../store/postgres/mlflow/experiments.ts'
import { findMlflowRun, type MlflowRun } from '../../store/postgres/mlflow/runs.ts'
import { ensureProject } from '../../store/postgres/projects/projects.ts'
import { type Access, refuseWithheld, toViewer, unknownProject } from '../access.ts'
import { findWorkspaceOf } from './workspace.ts'

export type MlflowCall = { caller: Caller; headers: IncomingHttpHeaders }

/** The experiment of those who chose none: clients know its id without asking. */
const defaultId = '0'
const defaultName = 'Default'

type PlaceOfName = { workspaceId: string; workspaceName: string; name: string; isOwn: boolean }

export type ExperimentFinder = ReturnType<typeof createExperimentFinder>

/** Finds projects and experiments as clients of MLflow name them: deleted ones are there too. */
export function createExperimentFinder({ database, access }: { database: Database; access: Access }) {
  async function experiment(call: MlflowCall, id: string): Promise<MlflowExperiment> {
    const { caller } = call
    if (id === defaultId) {
      const workspace = await findWorkspaceOf(access, call)
      const there = await findMlflowExperimentByName(database, toViewer(caller), {
        workspaceId: workspace.id,
        name: defaultName,
      })
      if (there && !there.isDeleted) return there
      await access.writableWorkspace(caller, workspace.name)
      const made = await ensureProject(database, {
        workspaceId: workspace.id,
        userId: caller.userId,
        name: defaultName,
      })
      return await experiment(call, made)
    }
    const found = await findMlflowExperiment(database, toViewer(caller), id)
    if (found) return found
    await refuseWithheld(database, caller, 'projectId', id)
    throw unknownProject()
  }

  /** An experiment that the caller may change. */
  async function writableExperiment(call: MlflowCall, id: string): Promise<MlflowExperiment> {
    const found = await experiment(call, id)
    if (found.isWritable) return found
    await refuseWithheld(database, call.caller, 'projectId', id)
    throw needsEditor('projectReadOnly', 'experiment', found.workspaceName)
  }

  async function run({ caller }: MlflowCall, key: string | undefined): Promise<MlflowRun> {
    if (!key) throw new HttpError('badRequest', 'run_id: is missing')
    const found = await findMlflowRun(database, toViewer(caller), key)
    if (found) return found
    await refuseWithheld(database, caller, 'experimentKey', key)
    throw unknownExperiment(key)
  }

  /** A run that the caller may change, deleted or not. */
  async function writableRun(call: MlflowCall, key: string | undefined): Promise<MlflowRun> {
    const found = await run(call, key)
    if (found.isWritable) return found
    await refuseWithheld(database, call.caller, 'experimentKey', found.key)
    throw needsEditor('experimentReadOnly', 'run', found.workspaceName)
  }

  return {
    experiment,
    writableExperiment,

    /** Where a name belongs: `workspace/project` is in that workspace, if the caller may use it; any other in that of the call. */
    async place(call: MlflowCall, name: string): Promise<PlaceOfName> {
      const own = () => findWorkspaceOf(access, call)
      const [first, ...rest] = name.split('/')
      if (first && rest.length > 0) {
        const named = await access.namedWorkspace(call.caller, first).catch(ignoreUnknown)
        if (named) {
          const isOwn = (await own().catch(ignoreUnknown))?.id === named.id
          return { workspaceId: named.id, workspaceName: named.name, name: rest.join('/'), isOwn }
        }
      }
      const { id: workspaceId, name: workspaceName } = await own()
      return { workspaceId, workspaceName, name, isOwn: true }
    },

    /** Undefined when there is none. */
    async experimentByName(call: MlflowCall, place: { workspaceId: string; name: string }) {
      return await findMlflowExperimentByName(database, toViewer(call.caller), place)
    },

    /** Whether an experiment is of the workspace that the call is about. */
    async isOwn(call: MlflowCall, { workspaceName }: Pick<MlflowExperiment, 'workspaceName'>): Promise<boolean> {
      return (await findWorkspaceOf(access, call).catch(ignoreUnknown))?.name === workspaceName
    },

    run,
    writableRun,

    /** A run to log to: not a deleted one. */
    async activeRun(call: MlflowCall, key: string | undefined): Promise<MlflowRun> {
      const found = await writableRun(call, key)
      if (!found.isDeleted) return found
      throw new HttpError('badRequest', `run_id: the run ${found.key} is deleted; restore it before you log to it.`)
    },
  }
}

function ignoreUnknown(error: unknown): undefined {
  if (error instanceof HttpError && ['workspaceUnknown', 'accountRestricted', 'keyRestricted'].includes(error.kind))
    return
  throw error
}
