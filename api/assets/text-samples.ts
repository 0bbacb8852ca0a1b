import { z } from 'zod'
import { experimentKey, int64, object, optional, text } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { Access } from '../access.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'
import { assetTopic } from './assets.ts'
import { assetFields } from './fields.ts'
import { toFileName } from './names.ts'
import type { AssetWriter } from './writer.ts'

const type = 'text-sample'
const contentType = 'text/plain'
const charactersMax = 4_000_000

type Deps = { writer: AssetWriter; access: Access; heartbeats: Heartbeats; rateLimited: RateLimitedWrite }

/** Text samples. Each is an asset. */
export function createTextSampleRoutes({ writer, access, heartbeats, rateLimited }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/write/experiment/upload-text-sample',
      charge: 'own',
      permission: 'caller',
      topic: assetTopic,
      summary: 'Stores a text as an asset of type text-sample.',
      body: object({
        experimentKey,
        apiKey: optional(text(1_000)).describe('ignored: the header carries the key'),
        content: text(charactersMax),
        step: optional(int64),
        context: optional(assetFields.context),
        metadata: optional(assetFields.metadata),
      }),
      answer: z.object({ msg: z.string(), assetId: z.string() }),
      shape: 'envelope',
      async handle({ body: { experimentKey: key, apiKey: _, content, ...more }, caller }) {
        const experiment = await access.writableExperiment(caller, key)
        return await rateLimited('other', experiment, caller, () =>
          writer.withText(content, async (file) => {
            const fileName = toFileName({ fileName: undefined, extension: 'txt', type, sentName: undefined })
            const fields = { type, fileName, contentType, ...more }
            const [assetId = ''] = await writer.keep(experiment, [{ fields, location: file }])
            heartbeats.active(experiment.id, Date.now())
            return { msg: 'Saved', assetId }
          }),
        )
      },
    }),
  ]
}
