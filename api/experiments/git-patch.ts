import { z } from 'zod'
import { experimentKey, object } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route, toEnvelope } from '../../http/route.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import { findNewestAsset } from '../../store/postgres/assets/assets.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { Access } from '../access.ts'
import { assetTopic } from '../assets/assets.ts'
import { sendAsset } from '../assets/download.ts'
import type { AssetWriter } from '../assets/writer.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'

const patchType = 'git-patch'

/** The patch is the newest asset of its type, even if it came by `upload-asset`. */
export const patchFields = { type: patchType, fileName: 'git.patch', contentType: 'text/plain', overwrite: true }

type Deps = {
  database: Database
  objects: ObjectStore
  writer: AssetWriter
  access: Access
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
}

/** The git patch of an experiment: the uncommitted changes of its code. */
export function createGitPatchRoutes({ database, objects, writer, access, heartbeats, rateLimited }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/write/experiment/git/patch',
      charge: 'own',
      permission: 'caller',
      topic: assetTopic,
      summary: 'Uploads the git patch, as the part `file` of a form or as the whole body. It replaces an earlier one.',
      query: object({ experimentKey }),
      upload: object({ file: z.file() }),
      answer: z.object({ msg: z.string(), assetId: z.string() }),
      shape: 'envelope',
      handle: ({ query, caller, request }) =>
        writer.withUpload(request.raw, async (receive) => {
          const experiment = await access.writableExperiment(caller, query.experimentKey)
          return await rateLimited('other', experiment, caller, async () => {
            const { file } = await receive()
            if (!file) throw new HttpError('badRequest', 'file: is missing; send it as this part of the form')
            const [assetId = ''] = await writer.keep(experiment, [{ fields: patchFields, location: file }])
            heartbeats.active(experiment.id, Date.now())
            return { msg: 'Saved', assetId }
          })
        }),
    }),

    route({
      method: 'GET',
      path: '/experiment/git/patch',
      permission: 'reader',
      topic: assetTopic,
      summary: 'Reads the git patch.',
      query: object({ experimentKey }),
      answer: z.file(),
      shape: 'bytes',
      async handle({ query, caller, request, reply }) {
        const experiment = await access.experiment(caller, query.experimentKey)
        const patch = await findNewestAsset(database, experiment.id, patchType)
        // Existing clients expect this status.
        if (!patch) return reply.send(toEnvelope({ msg: 'The experiment has no git patch.' }))
        return await sendAsset({ request, reply }, objects, patch)
      },
    }),
  ]
}
