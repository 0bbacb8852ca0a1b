import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import { object, optional, pageFields, text } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { type ListedModel, searchRegistryModels } from '../../store/postgres/registry/search.ts'
import { type Access, toViewer } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'
import { registryTopic } from './change.ts'

const pageSizeMax = 1_000
const pageSizeDefault = 100

const orders = ['lastUpdated', 'name'] as const

const listedAnswer = z.object({
  registryModelId: z.string(),
  modelName: z.string(),
  description: z.string(),
  isPublic: z.boolean(),
  userName: z.string().describe('who registered it'),
  numberOfVersions: z.int(),
  latestVersion: z.string().nullable().describe('the highest; null when there is none'),
  stages: z
    .array(z.object({ stage: z.string(), version: z.string() }))
    .describe('each stage, with the highest version that has it'),
  monitored: z.boolean().describe('a model of this name reports to the workspace; only members see it'),
  createdAt: z.int().describe('ms since the Unix epoch'),
  lastUpdated: z.int().describe('ms since the Unix epoch'),
})

/** The list of registered models that people look through. */
export function createRegistrySearchRoutes({ reads, access }: { reads: Queries; access: Access }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/registry-model/search',
      permission: 'caller',
      topic: registryTopic,
      summary:
        'Searches the registered models of a workspace by name, description and stage, a page at a time. Callers who ' +
        'are not members see the public ones. `nextPage` is the `page` to request next, or null.',
      query: object({
        workspaceName,
        search: optional(text(1_000)).describe('a part of a name, a description or a stage, in any case'),
        order: optional(z.enum(orders, `must be one of ${orders.join(', ')}`)).describe(
          'lastUpdated, the newest first, or name',
        ),
        ...pageFields(pageSizeMax),
      }),
      answer: z.object({ total: z.int(), models: z.array(listedAnswer), nextPage: z.string().nullable() }),
      shape: 'plain',
      async handle({ query, caller }) {
        const { workspaceName, search = '', order = 'lastUpdated', page = '0', pageSize = pageSizeDefault } = query
        const skip = Number(page)
        const wanted = { workspaceName, text: search, order, skip, limit: pageSize }
        const { models, total } = await searchRegistryModels(reads, toViewer(caller), wanted)
        // A workspace without visible models must get the same answer as an absent one.
        if (total === 0 && search === '') await access.workspace(caller, workspaceName)
        const next = skip + models.length
        return {
          total,
          models: models.map(toListed),
          nextPage: next < total && models.length > 0 ? String(next) : null,
        }
      },
    }),
  ]
}

function toListed(model: ListedModel): z.input<typeof listedAnswer> {
  return {
    registryModelId: model.id,
    modelName: model.name,
    description: model.description,
    isPublic: model.isPublic,
    userName: model.userName,
    numberOfVersions: model.numberOfVersions,
    latestVersion: model.latestVersion,
    stages: model.stages,
    monitored: model.isMonitored,
    createdAt: toJsonInteger(model.createdAtMs),
    lastUpdated: toJsonInteger(model.updatedAtMs),
  }
}
