import { z } from 'zod'
import { HttpError, needsEditor } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { insertRegistryModel } from '../../store/postgres/registry/models.ts'
import { firstStatus } from '../../store/postgres/registry/statuses.ts'
import {
  type ExperimentModelSource,
  findNextVersion,
  insertRegistryVersion,
  lockExperimentModel,
  type VersionSource,
} from '../../store/postgres/registry/versions.ts'
import { parseSemver } from '../../store/registry/semver.ts'
import { refuseWithheld, toViewer } from '../access.ts'
import { type Changer, type OpenChange, toOpenChange } from './change.ts'
import { checkStatus } from './statuses.ts'

/** The steps of a registration, each in the transaction of its caller. */

export type NewVersionFields = {
  [name in 'version' | 'comment' | 'status']?: string | undefined
} & { stages?: string[] | undefined }

export const registeredIds = z.object({ registryModelId: z.string(), registryModelItemId: z.string() })

/** Creates a model without versions. Fails with a unique violation when the workspace has one of this name. */
export async function createModel(
  changer: Changer,
  { id: workspaceId, name: workspaceName }: { id: string; name: string },
  fields: { name: string; description: string; isPublic: boolean },
): Promise<OpenChange> {
  const { queries, caller } = changer
  const id = await insertRegistryModel(queries, { workspaceId, userId: caller.userId, ...fields, nowMs: Date.now() })
  const change = toOpenChange(changer, { id, workspaceId, workspaceName, ...fields, isWritable: true, isMember: true })
  const { name: registryModelName, ...others } = fields
  await change.record({ action: 'MODEL_CREATED', before: {}, after: { registryModelName, ...others } })
  return change
}

/** @throws HttpError `registryVersionBad` */
export function checkVersion(version: string | undefined) {
  if (version === undefined || parseSemver(version)) return
  throw new HttpError('registryVersionBad', `version: must be a semantic version such as 1.0.0, not "${version}"`)
}

/** The experiment model to register, locked. */
export async function findSource(queries: Queries, caller: Caller, id: string): Promise<ExperimentModelSource> {
  const source = await lockExperimentModel(queries, toViewer(caller), id)
  if (!source?.isWritable) await refuseWithheld(queries, caller, 'experimentModelId', id)
  if (!source) {
    throw new HttpError(
      'experimentModelUnknown',
      `experimentModelId: there is no model ${id} of an experiment that this key may use; see /experiment/model.`,
    )
  }
  if (source.isWritable) return source
  throw needsEditor('experimentReadOnly', 'experiment', source.workspaceName)
}

/** Adds a version with the files of its source, which must be locked. */
export async function addVersion(
  { queries, model, caller, nowMs, record }: OpenChange,
  source: VersionSource,
  given: NewVersionFields,
): Promise<z.output<typeof registeredIds>> {
  const version = given.version ?? (await findNextVersion(queries, model.id))
  // The next version of the longest one is too long.
  checkVersion(version)
  const { comment = '', stages = [], status = firstStatus } = given
  await checkStatus(queries, model, status)
  const { userId } = caller
  const made = await insertRegistryVersion(queries, {
    modelId: model.id,
    userId,
    version,
    comment,
    stages,
    status,
    source,
    nowMs,
  })
  if (made.files === 0n) {
    throw new HttpError('experimentModelEmpty', `experimentModelId: the model "${source.name}" has no files any more.`)
  }
  await record({
    action: 'MODEL_VERSION_CREATED',
    version: { id: made.id, version, stages, experimentModelId: source.id, experimentKey: source.experimentKey },
    stagesBefore: [],
    before: {},
    after: { version, comment, stages, status },
  })
  return { registryModelId: model.id, registryModelItemId: made.id }
}
