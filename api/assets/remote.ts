import { z } from 'zod'
import { checkFields, experimentKey, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { Access } from '../access.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'
import { assetFields, assetTopic } from './assets.ts'
import { toContentType, toFileName } from './names.ts'
import type { AssetWriter } from './writer.ts'

const assetsMax = 10_000

const remoteAsset = object({
  link: assetFields.link,
  fileName: optional(assetFields.fileName),
  assetId: optional(text(100, 1)),
  type: optional(assetFields.type),
  metadata: optional(assetFields.metadata),
  artifactId: optional(text(100)),
  artifactVersionId: optional(assetFields.artifactVersionId),
})

const remoteAssets = optional(list(remoteAsset, assetsMax))

type Deps = { writer: AssetWriter; access: Access; heartbeats: Heartbeats; rateLimited: RateLimitedWrite }

/** Remote assets, many in one request. */
export function createRemoteAssetRoutes({ writer, access, heartbeats, rateLimited }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/write/experiment/assets/remote/batch',
      permission: 'caller',
      topic: assetTopic,
      summary: 'Stores the links of remote assets, all or none. Send the experiment key in the query or in the body.',
      query: object({ experimentKey: optional(experimentKey) }),
      body: object({ experimentKey: optional(experimentKey), remoteAssets, remoteEntities: remoteAssets }),
      answer: z.object({ msg: z.string(), assetIds: z.array(z.string()).describe('in the order they were sent') }),
      shape: 'envelope',
      async handle({ query, body, caller }) {
        const named = { experimentKey: query.experimentKey ?? body.experimentKey }
        const target = checkFields(object({ experimentKey }), named)
        const given = body.remoteAssets ?? body.remoteEntities
        if (!given) throw new HttpError('badRequest', 'remoteAssets: is missing')
        const experiment = await access.writableExperiment(caller, target.experimentKey)
        const assets = given.map(({ link, assetId, ...rest }) => {
          const type = rest.type || 'asset'
          const sentName = link.split(/[?#]/)[0]?.split('/').at(-1)
          const fileName = toFileName({ fileName: rest.fileName, extension: undefined, type, sentName })
          const contentType = toContentType({ type, fileName })
          const { metadata, artifactVersionId } = rest
          return {
            fields: { id: assetId, type, fileName, contentType, metadata, artifactVersionId },
            location: { link },
          }
        })
        const assetIds = await rateLimited('other', experiment, caller, () => writer.keep(experiment, assets))
        heartbeats.active(experiment.id, Date.now())
        return { msg: 'Saved', assetIds }
      },
    }),
  ]
}
