import { object, optional } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { RegistryAction } from '../../store/postgres/registry/history.ts'
import { deleteRegistryVersion, type RegistryVersion } from '../../store/postgres/registry/versions.ts'
import type { OrphanedObjects } from '../assets/orphaned-objects.ts'
import {
  changeVersion,
  type OpenChange,
  okAnswer,
  registryFields,
  registryTopic,
  stagesMax,
  updateVersion,
} from './change.ts'

const stageQuery = object({ modelItemId: registryFields.id, stage: registryFields.stage })

type Deps = { database: Database; orphanedObjects: OrphanedObjects; appUrl: string }

/** Changes one version of a registered model. */
export function createRegistryVersionRoutes({ database, orphanedObjects, appUrl }: Deps): Route[] {
  async function change(caller: Caller, versionId: string, work: Parameters<typeof changeVersion>[2]) {
    await changeVersion({ database, caller, appUrl }, versionId, work)
    return '200 Ok' as const
  }

  function changeStage(path: string, summary: string, action: RegistryAction, toStages: ToStages): Route {
    return route({
      method: 'GET',
      path,
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary,
      query: stageQuery,
      answer: okAnswer,
      shape: 'text',
      handle: ({ query, caller }) =>
        change(caller, query.modelItemId, async (open, version) => {
          await updateVersion(open, version, action, { stages: toStages(version, query.stage) })
        }),
    })
  }

  return [
    route({
      method: 'POST',
      path: '/write/registry-model/item/update',
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Changes the comment of a version, or replaces its stages. Absent fields stay the same.',
      body: object({
        registryModelItemId: registryFields.id,
        comment: optional(registryFields.comment),
        stages: optional(registryFields.stages),
      }),
      answer: okAnswer,
      shape: 'text',
      async handle({ body: { registryModelItemId, comment, stages }, caller }) {
        if (comment === undefined && stages === undefined) {
          throw new HttpError('badRequest', 'Send comment or stages: nothing is to be changed.')
        }
        return await change(caller, registryModelItemId, async (open, version) => {
          const newComment = comment === version.comment ? undefined : comment
          const newStages = stages && !isSameList(stages, version.stages) ? stages : undefined
          const action = newStages ? 'MODEL_VERSION_STAGES_CHANGED' : 'MODEL_VERSION_UPDATED'
          if (newComment === undefined && newStages === undefined) return
          await updateVersion(open, version, action, { comment: newComment, stages: newStages })
        })
      },
    }),

    route({
      method: 'GET',
      path: '/write/registry-model/item/delete',
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Deletes a version. The model stays, even without versions.',
      query: object({ modelItemId: registryFields.id }),
      answer: okAnswer,
      shape: 'text',
      async handle({ query, caller }) {
        const answer = await change(caller, query.modelItemId, deleteVersion)
        // Not awaited: there may be a hundred thousand files.
        void orphanedObjects.free()
        return answer
      },
    }),

    changeStage(
      '/write/registry-model/item/stage',
      'Adds a stage to a version, which must not have it.',
      'MODEL_VERSION_STAGE_ADDED',
      ({ version, stages }, stage) => {
        if (stages.includes(stage)) {
          throw new HttpError('stageExists', `stage: version ${version} has the stage "${stage}" already.`)
        }
        if (stages.length < stagesMax) return [...stages, stage]
        throw new HttpError('badRequest', `stage: version ${version} has reached the limit of ${stagesMax} stages.`)
      },
    ),
    changeStage(
      '/write/registry-model/item/stage/delete',
      'Removes a stage from a version; the version must have it.',
      'MODEL_VERSION_STAGE_REMOVED',
      ({ version, stages }, stage) => {
        if (stages.includes(stage)) return stages.filter((it) => it !== stage)
        throw new HttpError('stageUnknown', `stage: version ${version} has no stage "${stage}".`)
      },
    ),
  ]
}

export async function deleteVersion({ queries, record }: OpenChange, version: RegistryVersion): Promise<void> {
  await deleteRegistryVersion(queries, version.id)
  const before = { version: version.version, comment: version.comment, stages: version.stages }
  await record({ action: 'MODEL_VERSION_DELETED', version, before, after: {} })
}

/** Returns the new stages. @throws HttpError when the change is not possible */
type ToStages = (version: RegistryVersion, stage: string) => string[]

function isSameList(one: string[], other: string[]): boolean {
  return one.length === other.length && one.every((it, at) => it === other[at])
}
