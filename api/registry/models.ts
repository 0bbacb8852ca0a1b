import { flag, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { type Database, isUniqueViolation } from '../../store/postgres/database.ts'
import {
  deleteRegistryModel,
  findRegistryNotes,
  type RegistryReference,
  updateRegistryModel,
  updateRegistryNotes,
} from '../../store/postgres/registry/models.ts'
import { listRegistryVersions } from '../../store/postgres/registry/versions.ts'
import type { OrphanedObjects } from '../assets/orphaned-objects.ts'
import { okAnswer, openChange, registryFields, registryTopic } from './change.ts'

const notesCharactersMax = 4_000_000
/** A character has up to three bytes in UTF-8, and JSON may escape it as six. */
const notesBodyBytesMax = 6 * notesCharactersMax + 100_000

type Deps = { database: Database; orphanedObjects: OrphanedObjects; appUrl: string }

/** Changes a registered model: name, description, visibility and notes. */
export function createRegistryModelRoutes({ database, orphanedObjects, appUrl }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/write/registry-model/update',
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Changes the name, description or visibility of a registered model. Absent fields stay the same.',
      body: object({
        registryModelId: registryFields.id,
        registryModelName: optional(registryFields.modelName),
        description: optional(registryFields.description),
        isPublic: optional(flag),
      }),
      answer: okAnswer,
      shape: 'text',
      async handle({ body, caller }) {
        const { registryModelId: modelId, ...given } = body
        if (Object.values(given).every((it) => it === undefined)) {
          throw new HttpError(
            'badRequest',
            'Send registryModelName, description or isPublic: nothing is to be changed.',
          )
        }
        await updateModel({ database, caller, appUrl }, { modelId }, given)
        return '200 Ok' as const
      },
    }),

    route({
      method: 'POST',
      path: '/write/registry-model/notes',
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Sets the notes of a registered model.',
      body: object({
        workspaceName: text(1_000, 1),
        registryModelName: text(1_000, 1),
        notes: text(notesCharactersMax),
      }),
      answer: okAnswer,
      shape: 'text',
      bodyBytesMax: notesBodyBytesMax,
      async handle({ body: { workspaceName, registryModelName: modelName, notes }, caller }) {
        await database.transaction(async (queries) => {
          const { model, record } = await openChange({ queries, caller, appUrl }, { workspaceName, modelName })
          const changed = differences({ notes: await findRegistryNotes(queries, model.id) }, { notes })
          if (!changed) return
          await updateRegistryNotes(queries, model.id, notes)
          await record({ action: 'MODEL_NOTES_CHANGED', ...changed })
        })
        return '200 Ok' as const
      },
    }),

    route({
      method: 'GET',
      path: '/write/registry-model/delete',
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Deletes a registered model and all its versions. The experiments keep their files.',
      query: object({ workspaceName: text(1_000, 1), modelName: text(1_000, 1) }),
      answer: okAnswer,
      shape: 'text',
      async handle({ query, caller }) {
        await deleteModel({ database, caller, appUrl }, query)
        // Not awaited: there may be a hundred thousand files.
        void orphanedObjects.free()
        return '200 Ok' as const
      },
    }),
  ]
}

type ModelChanges = { [name in 'registryModelName' | 'description']?: string | undefined } & {
  isPublic?: boolean | undefined
}

type Changing = { database: Database; caller: Caller; appUrl: string }

/** Changes the name, description or visibility of a model; absent fields stay the same. @throws HttpError */
export async function updateModel(
  { database, caller, appUrl }: Changing,
  reference: RegistryReference,
  given: ModelChanges,
): Promise<void> {
  try {
    await database.transaction(async (queries) => {
      const { model, record } = await openChange({ queries, caller, appUrl }, reference)
      const old = { registryModelName: model.name, description: model.description, isPublic: model.isPublic }
      const changed = differences(old, given)
      if (!changed) return
      const { registryModelName: name, description, isPublic } = { ...old, ...changed.after }
      await updateRegistryModel(queries, model, { name, description, isPublic })
      const action = name === model.name ? 'MODEL_UPDATED' : 'MODEL_RENAMED'
      await record({ action, model: { ...model, name, description, isPublic }, ...changed })
    })
  } catch (error) {
    if (!isUniqueViolation(error)) throw error
    throw new HttpError(
      'registryModelExists',
      `registryModelName: the workspace has a registry model "${given.registryModelName}" already.`,
    )
  }
}

/** Deletes a model with its versions. @throws HttpError */
export async function deleteModel(
  { database, caller, appUrl }: Changing,
  named: { workspaceName: string; modelName: string },
): Promise<void> {
  await database.transaction(async (queries) => {
    const { model, record } = await openChange({ queries, caller, appUrl }, named, 'registryModelUnknown')
    const versions = await listRegistryVersions(queries, model.id)
    const before = {
      registryModelName: model.name,
      description: model.description,
      isPublic: model.isPublic,
      notes: await findRegistryNotes(queries, model.id),
      versions: versions.map(({ version, comment, stages }) => ({ version, comment, stages })),
    }
    await deleteRegistryModel(queries, model.id)
    await record({ action: 'MODEL_DELETED', before, after: {} })
  })
}

/** The given fields that differ from the old ones, before and after; undefined if none do. */
function differences<T extends object>(old: T, given: { [Name in keyof T]?: T[Name] | undefined }) {
  const names = (Object.keys(old) as (keyof T)[]).filter((it) => given[it] !== undefined && given[it] !== old[it])
  if (names.length === 0) return undefined
  const pick = (from: typeof given) => Object.fromEntries(names.map((it) => [it, from[it]])) as Partial<T>
  return { before: pick(old), after: pick(given) }
}
