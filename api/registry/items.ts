import { z } from 'zod'
import { toJsonAnswer, toJsonInteger } from '../../http/body/exact-json.ts'
import { list, object, optional, text } from '../../http/body/fields.ts'
import { anyKind, jsonText } from '../../http/body/json-field.ts'
import { type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { RegistryModel } from '../../store/postgres/registry/models.ts'
import { isModelMonitored } from '../../store/postgres/registry/search.ts'
import {
  findRegistryVersion,
  findRegistryVersions,
  listRegistryFiles,
  type RegistryVersion,
} from '../../store/postgres/registry/versions.ts'
import { toViewer } from '../access.ts'
import {
  commonModel,
  commonVersion,
  toCommonModel,
  toCommonVersion,
  toVersionAnswer,
  versionAnswer,
} from './answers.ts'
import { changeVersion, okAnswer, registryFields, registryTopic } from './change.ts'
import { findFacts, findModel, modelQuery, unknownChoice } from './find.ts'
import { setMetadata } from './metadata.ts'

const entriesMax = 1_000
const valueBytesMax = 100_000

/** What newer clients read of a version; its tags are its stages. */
const itemFields = {
  registryModelId: z.string(),
  registryModelName: z.string(),
  experimentKey: z.string(),
  tags: z.array(z.string()).describe('the stages'),
  status: z.string(),
  updatedAt: z.int().describe('ms since the Unix epoch'),
}

const versionPath = object({ registryModelItemId: registryFields.id })

type Deps = { database: Database; appUrl: string }

/** One version at a time, as newer clients read and change it: tags, status and metadata. */
export function createRegistryItemRoutes({ database, appUrl }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/registry-model/compact-details',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Reads a registered model without its versions.',
      query: modelQuery,
      answer: z.object({
        ...commonModel,
        isWritable: z.boolean().describe('whether this caller may change it and read its history'),
        monitored: z.boolean().describe('a model of this name reports to the workspace; only members see it'),
      }),
      shape: 'plain',
      async handle({ query, caller }) {
        const model = await findModel(database, caller, query)
        const monitored = await isModelMonitored(database, toViewer(caller), model.id)
        return { ...toCommonModel(model), isWritable: model.isWritable, monitored }
      },
    }),

    route({
      method: 'GET',
      path: '/registry-model/item/details',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Reads a version with its tags, status and files. Without version: the highest.',
      query: object({ ...modelQuery.shape, version: optional(text(99, 1)) }),
      answer: z.object({ ...versionAnswer.shape, ...itemFields }),
      shape: 'plain',
      async handle({ query, caller }) {
        const model = await findModel(database, caller, query)
        const version = await findRegistryVersion(database, model.id, { version: query.version })
        if (!version) throw unknownChoice(query.modelName, { version: query.version })
        const files = await listRegistryFiles(database, [version.id])
        return { ...toVersionAnswer(model, version, files, appUrl), ...toItem(model, version) }
      },
    }),

    route({
      method: 'GET',
      path: '/registry-model/items',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Lists the versions of a registered model that match every given filter, the highest first.',
      query: object({
        ...modelQuery.shape,
        versionPrefix: optional(text(99)).describe('2.1 finds 2.1.0 and 2.1.1'),
        tag: optional(registryFields.stage),
        status: optional(registryFields.status),
      }),
      answer: z.object({ items: z.array(z.object({ ...commonVersion, ...itemFields })) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const model = await findModel(database, caller, query)
        const { versionPrefix = '', tag, status } = query
        const found = await findRegistryVersions(database, model.id, { versionPrefix, tag, status })
        return { items: found.map((it) => ({ ...toCommonVersion(it), ...toItem(model, it) })) }
      },
    }),

    route({
      method: 'GET',
      path: '/registry-model/item/{registryModelItemId}/metadata',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Reads the metadata of a version.',
      params: versionPath,
      answer: z.object({
        metadata: z.array(z.object({ key: z.string(), value: z.unknown().meta({ type: anyKind }) })),
      }),
      shape: 'plain',
      async handle({ params, caller }) {
        const { metadata } = await findFacts(database, caller, params.registryModelItemId)
        return { metadata: toJsonAnswer(metadata) as { key: string; value: unknown }[] }
      },
    }),

    route({
      method: 'POST',
      path: '/write/registry-model/item/{registryModelItemId}/metadata',
      charge: 'call',
      permission: 'caller',
      topic: registryTopic,
      summary: 'Sets metadata of a version. Keys that are not sent stay the same.',
      params: versionPath,
      body: object({
        metadata: list(object({ key: text(1_000, 1), value: jsonText(valueBytesMax) }), entriesMax),
      }),
      answer: okAnswer,
      shape: 'text',
      async handle({ params, body, caller }) {
        const { registryModelItemId } = params
        await changeVersion({ database, caller, appUrl }, registryModelItemId, async (open, version) => {
          await setMetadata(open, version, body.metadata)
        })
        return '200 Ok' as const
      },
    }),
  ]
}

function toItem(model: RegistryModel, version: RegistryVersion) {
  return {
    registryModelId: model.id,
    registryModelName: model.name,
    experimentKey: version.experimentKey,
    tags: version.stages,
    status: version.status,
    updatedAt: toJsonInteger(version.updatedAtMs),
  }
}
