import { z } from 'zod'
import { checkFields, experimentKey, flag, int64, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { modelElement } from '../../store/postgres/assets/assets.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { Access } from '../access.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'
import { assetTopic } from './assets.ts'
import { assetFields } from './fields.ts'
import { toContentType, toFileName } from './names.ts'
import type { AssetWriter } from './writer.ts'

const assetsMax = 10_000

const remoteAsset = object({
  link: assetFields.link,
  fileName: optional(assetFields.fileName),
  assetId: optional(text(100, 1)),
  type: optional(assetFields.type),
  metadata: optional(assetFields.metadata),
  step: optional(int64),
  overwrite: optional(flag).describe('true: replaces all assets of the same file name'),
  artifactId: optional(text(100)),
  artifactVersionId: optional(assetFields.artifactVersionId),
})

const remoteAssets = optional(list(remoteAsset, assetsMax))

const modelFile = object({
  remoteUrl: assetFields.link,
  fileName: optional(assetFields.fileName),
  assetId: optional(text(100, 1)),
  metadata: optional(assetFields.metadata),
})

type GivenAsset = { link: string } & Partial<z.output<typeof remoteAsset>> & { groupingName?: string }

const assetIds = z.array(z.string()).describe('in the order they were sent')

type Deps = { writer: AssetWriter; access: Access; heartbeats: Heartbeats; rateLimited: RateLimitedWrite }

/** Remote assets, many in one request: all are stored or none. */
export function createRemoteAssetRoutes({ writer, access, heartbeats, rateLimited }: Deps): Route[] {
  async function keep(caller: Caller, key: string, given: GivenAsset[]) {
    const experiment = await access.writableExperiment(caller, key)
    const assets = given.map(({ link, assetId, ...rest }) => {
      const type = rest.type || 'asset'
      const sentName = link.split(/[?#]/)[0]?.split('/').at(-1)
      const fileName = toFileName({ fileName: rest.fileName, extension: undefined, type, sentName })
      const contentType = toContentType({ type, fileName })
      const { metadata, artifactVersionId, step, overwrite, groupingName } = rest
      return {
        fields: {
          id: assetId,
          type,
          fileName,
          contentType,
          metadata,
          artifactVersionId,
          step,
          overwrite: overwrite ?? false,
          groupingName,
        },
        location: { link },
      }
    })
    const assetIds = await rateLimited('other', experiment, caller, () => writer.keep(experiment, assets))
    heartbeats.active(experiment.id, Date.now())
    return { msg: 'Saved', assetIds }
  }

  return [
    route({
      method: 'POST',
      path: '/write/experiment/assets/remote/batch',
      charge: 'own',
      permission: 'caller',
      topic: assetTopic,
      summary: 'Stores the links of remote assets, all or none. Send the experiment key in the query or in the body.',
      query: object({ experimentKey: optional(experimentKey) }),
      body: object({ experimentKey: optional(experimentKey), remoteAssets, remoteEntities: remoteAssets }),
      answer: z.object({ msg: z.string(), assetIds }),
      shape: 'envelope',
      async handle({ query, body, caller }) {
        const named = { experimentKey: query.experimentKey ?? body.experimentKey }
        const target = checkFields(object({ experimentKey }), named)
        const given = body.remoteAssets ?? body.remoteEntities
        if (!given) throw new HttpError('badRequest', 'remoteAssets: is missing')
        return await keep(caller, target.experimentKey, given)
      },
    }),

    route({
      method: 'POST',
      path: '/write/artifact/assets/remote/batch',
      charge: 'own',
      permission: 'caller',
      topic: assetTopic,
      summary: 'Stores the links of remote assets of an artifact version, all or none.',
      query: object({ experimentKey }),
      body: object({ remoteArtifactAssetRequests: list(remoteAsset, assetsMax) }),
      answer: z.object({ msg: z.string(), assetIds }),
      shape: 'envelope',
      handle: ({ query, body, caller }) => keep(caller, query.experimentKey, body.remoteArtifactAssetRequests),
    }),

    route({
      method: 'POST',
      path: '/clientlib/asset/log-remote-model',
      charge: 'own',
      atRoot: true,
      permission: 'caller',
      topic: assetTopic,
      summary: 'Stores the links of the files of a model of an experiment, all or none.',
      body: object({
        experimentKey,
        modelName: assetFields.groupingName,
        remoteEntities: list(modelFile, assetsMax),
      }),
      answer: z.object({ msg: z.string(), assetIds }),
      shape: 'envelope',
      handle: ({ body: { experimentKey, modelName, remoteEntities }, caller }) =>
        keep(
          caller,
          experimentKey,
          remoteEntities.map(({ remoteUrl, ...rest }) => ({
            ...rest,
            link: remoteUrl,
            type: modelElement,
            groupingName: modelName,
          })),
        ),
    }),
  ]
}
