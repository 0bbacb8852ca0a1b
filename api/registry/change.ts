import { z } from 'zod'
import { list, text } from '../../http/body/fields.ts'
import { HttpError, needsEditor } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import type { Database, Queries } from '../../store/postgres/database.ts'
import {
  type RegistryAction,
  type RegistryChange,
  recordRegistryChange,
} from '../../store/postgres/registry/history.ts'
import {
  type LockedModel,
  lockRegistryModel,
  type RegistryReference,
  touchRegistryModel,
} from '../../store/postgres/registry/models.ts'
import {
  findRegistryVersionById,
  type RegistryVersion,
  updateRegistryVersion,
} from '../../store/postgres/registry/versions.ts'
import { refuseWithheld, toViewer } from '../access.ts'
import { toDownloadUrl } from './answers.ts'

export const registryTopic = 'Model registry'

export const stagesMax = 100

/** The fields of requests to the registry. */
export const registryFields = {
  id: text(100, 1),
  modelName: text(200, 1).refine((name) => name !== '*', 'must not be *, which webhooks take for every model'),
  description: text(100_000),
  comment: text(100_000),
  stage: text(200, 1),
  stages: list(text(200, 1), stagesMax).transform((stages) => [...new Set(stages)]),
  status: text(200, 1).describe('one of /registry-model/allowed_status_values'),
}

/** The answer to changes of the registry. */
export const okAnswer = z.literal('200 Ok')

/** A change in a transaction. Its model is locked, so reads of it stay valid until the commit. */
export type OpenChange = {
  queries: Queries
  model: LockedModel
  caller: Caller
  nowMs: number
  /** Records the change and its webhooks in the same transaction. */
  record(
    change: Omit<RegistryChange, 'model' | 'userName' | 'nowMs' | 'restApiUrl'> & { model?: LockedModel },
  ): Promise<void>
}

/** The transaction and the caller of a change; `appUrl` is the base of links in its webhooks. */
export type Changer = { queries: Queries; caller: Caller; appUrl: string }

/** Begins a change of a model that is locked or was just created. */
export function toOpenChange({ queries, caller, appUrl }: Changer, model: LockedModel): OpenChange {
  const nowMs = Date.now()
  return {
    queries,
    model,
    caller,
    nowMs,
    async record(change) {
      await touchRegistryModel(queries, model.id, nowMs)
      const restApiUrl = toDownloadUrl(appUrl, change.model ?? model, change.version?.version)
      await recordRegistryChange(queries, { model, ...change, userName: caller.userName, nowMs, restApiUrl })
    },
  }
}

/**
 * Begins a change of a model, or of a version of it, within a transaction.
 *
 * @throws HttpError `registryModelReadOnly`; `unknown` for an absent model, `registryVersionUnknown` for an absent version
 */
export async function openChange(
  changer: Changer,
  reference: RegistryReference,
  unknown: 'registryModelUnknown' | 'registryUpdateUnknown' = 'registryUpdateUnknown',
): Promise<OpenChange> {
  const { queries, caller } = changer
  const model = await lockRegistryModel(queries, toViewer(caller), reference)
  if (!model?.isWritable) {
    if ('versionId' in reference) await refuseWithheld(queries, caller, 'registryVersionId', reference.versionId)
    else if ('modelId' in reference) await refuseWithheld(queries, caller, 'registryModelId', reference.modelId)
    else await refuseWithheld(queries, caller, 'workspaceName', reference.workspaceName)
  }
  if (!model) {
    if ('versionId' in reference) throw unknownVersion(reference.versionId)
    if ('workspaceName' in reference) throw unknownModel(reference, unknown)
    throw new HttpError(unknown, `There is no registry model ${reference.modelId} that this key may use.`)
  }
  if (!model.isWritable) throw needsEditor('registryModelReadOnly', 'model', model.workspaceName)
  return toOpenChange(changer, model)
}

/** Runs `work` in a transaction with a version whose model is locked. */
export async function changeVersion(
  { database, caller, appUrl }: { database: Database; caller: Caller; appUrl: string },
  versionId: string,
  work: (open: OpenChange, version: RegistryVersion) => Promise<void>,
): Promise<void> {
  await database.transaction(async (queries) => {
    const open = await openChange({ queries, caller, appUrl }, { versionId })
    // The version may have been deleted while this waited for the lock.
    const version = await findRegistryVersionById(queries, versionId)
    if (!version) throw unknownVersion(versionId)
    await work(open, version)
  })
}

type VersionChanges = Partial<Record<'comment' | 'status', string | undefined>> & { stages?: string[] | undefined }

/** Stores and records new values of a version's own fields; absent ones stay the same. */
export async function updateVersion(
  { queries, nowMs, record }: OpenChange,
  old: RegistryVersion,
  action: RegistryAction,
  { comment, stages, status }: VersionChanges,
): Promise<void> {
  const version = {
    ...old,
    comment: comment ?? old.comment,
    stages: stages ?? old.stages,
    status: status ?? old.status,
  }
  await updateRegistryVersion(queries, version.id, version, nowMs)
  const pick = (from: RegistryVersion) => ({
    ...(comment !== undefined && { comment: from.comment }),
    ...(stages !== undefined && { stages: from.stages }),
    ...(status !== undefined && { status: from.status }),
  })
  await record({ action, version, stagesBefore: old.stages, before: pick(old), after: pick(version) })
}

type ModelName = { workspaceName: string; modelName: string }

/** The same answer for an absent and a foreign model or workspace. */
export function unknownModel(
  { workspaceName, modelName }: ModelName,
  kind: 'registryModelUnknown' | 'registryUpdateUnknown' = 'registryModelUnknown',
): HttpError {
  return new HttpError(
    kind,
    `There is no registry model "${modelName}" in a workspace "${workspaceName}" that this key may use.`,
  )
}

export function unknownVersion(id: string): HttpError {
  return new HttpError('registryVersionUnknown', `There is no registry model version ${id} that this key may use.`)
}

export function readOnlyModel(): HttpError {
  return new HttpError(
    'registryModelReadOnly',
    'This key may read the registry model, but not change it, nor see its history.',
  )
}
