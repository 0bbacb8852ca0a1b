import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import { experimentKey, object, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import { listModelAssets, listModels } from '../../store/postgres/assets/assets.ts'
import type { Database } from '../../store/postgres/database.ts'
import { listRegistryRecords } from '../../store/postgres/registry/versions.ts'
import { type Access, toViewer } from '../access.ts'
import { assetAnswer, toAssetAnswer } from './answer.ts'
import { sendZip } from './download.ts'

const topic = 'Experiments: models'

const modelQuery = object({ experimentKey, modelName: text(1_000, 1) })

const modelAnswer = z.object({
  experimentModelId: z.string(),
  experimentKey: z.string(),
  modelName: z.string(),
  registryRecords: z.array(
    z.object({
      registryModelId: z.string(),
      registryModelItemId: z.string(),
      registryModelName: z.string(),
      version: z.string(),
      createdAt: z.int(),
    }),
  ),
})

type Deps = { database: Database; objects: ObjectStore; access: Access; appUrl: string }

/** Experiment models: files of type model-element under one name. */
export function createModelRoutes({ database, objects, access, appUrl }: Deps): Route[] {
  async function find(caller: Caller, query: z.output<typeof modelQuery>) {
    const experiment = await access.experiment(caller, query.experimentKey)
    const assets = await listModelAssets(database, experiment.id, query.modelName)
    if (!assets) {
      throw new HttpError('modelUnknown', `The experiment has no model "${query.modelName}": see /experiment/model.`)
    }
    return { experiment, assets }
  }

  return [
    route({
      method: 'GET',
      path: '/experiment/model',
      permission: 'reader',
      topic,
      summary:
        'Lists the models of an experiment. A model is created by its first file: type model-element with a groupingName.',
      query: object({ experimentKey }),
      answer: z.object({ models: z.array(modelAnswer) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const experiment = await access.experiment(caller, query.experimentKey)
        const models = await listModels(database, experiment.id)
        const ids = models.map((it) => it.id)
        const records = Map.groupBy(
          await listRegistryRecords(database, toViewer(caller), ids),
          (it) => it.experimentModelId,
        )
        return {
          models: models.map(({ id, name }) => ({
            experimentModelId: id,
            experimentKey: experiment.key,
            modelName: name,
            registryRecords: (records.get(id) ?? []).map((it) => ({
              registryModelId: it.modelId,
              registryModelItemId: it.id,
              registryModelName: it.modelName,
              version: it.version,
              createdAt: toJsonInteger(it.createdAtMs),
            })),
          })),
        }
      },
    }),

    route({
      method: 'GET',
      path: '/experiment/model/asset/list',
      permission: 'reader',
      topic,
      summary: 'Lists the files of a model.',
      query: modelQuery,
      answer: z.object({ assets: z.array(assetAnswer) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const { experiment, assets } = await find(caller, query)
        return { assets: assets.map((it) => toAssetAnswer(it, { experimentKey: experiment.key, appUrl })) }
      },
    }),

    route({
      method: 'GET',
      path: '/experiment/model/download',
      permission: 'reader',
      topic,
      summary: 'Reads the files of a model as a zip, without remote files.',
      query: modelQuery,
      answer: z.file(),
      shape: 'bytes',
      async handle({ query, caller, reply }) {
        const { assets } = await find(caller, query)
        return sendZip(reply, objects, query.modelName, assets)
      },
    }),
  ]
}
