import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { experimentKey, object } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { findDocument } from '../../store/postgres/experiments/documents.ts'
import type { Access } from '../access.ts'
import { assetTopic } from './assets.ts'
import { type AssetFinder, assetQuery } from './find.ts'

/**
 * Logged HTML may do anything, and it is served from our own address. The sandbox gives it an origin of its own, wherever it is
 * opened: its scripts run, but read no cookie, no storage and no answer of this service, open no window, and send no form. It
 * may load nothing from elsewhere either, so that looking at it tells nobody. It is no attachment, and its type is not guessed.
 */
const policy = [
  'sandbox allow-scripts',
  "default-src 'none'",
  "script-src 'unsafe-inline' 'unsafe-eval' data: blob:",
  "style-src 'unsafe-inline' data:",
  'img-src data: blob:',
  'media-src data: blob:',
  'font-src data:',
  "form-action 'none'",
  "base-uri 'none'",
].join('; ')

/** A page is read as a whole by the browser that shows it. */
const pageBytesMax = 100 * 1024 * 1024

type Deps = { database: Queries; objects: ObjectStore; access: Access; findAsset: AssetFinder }

/** HTML that an experiment has logged, as a page that can be shown in a frame. */
export function createPageRoutes({ database, objects, access, findAsset }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/experiment/asset/page',
      permission: 'reader',
      topic: assetTopic,
      summary:
        'Reads an asset as an HTML page in a sandbox: its scripts run without an origin, and it loads nothing from ' +
        'elsewhere. For frames.',
      query: assetQuery,
      answer: z.file(),
      shape: 'bytes',
      async handle({ query, caller, reply }) {
        const asset = await findAsset(caller, query)
        if (asset.objectKey === null) {
          throw new HttpError('badRequest', `assetId: the asset is remote; it is at ${asset.link}`)
        }
        if (asset.size > pageBytesMax) {
          throw new HttpError(
            'badRequest',
            `assetId: the asset has ${asset.size} bytes; a page has ${pageBytesMax} at most`,
          )
        }
        asPage(reply).header('content-length', Number(asset.size))
        return await objects.get(asset.objectKey)
      },
    }),

    route({
      method: 'GET',
      path: '/experiment/html/page',
      permission: 'reader',
      topic: assetTopic,
      summary: 'Reads the HTML of an experiment as a page in the same sandbox; empty when there is none.',
      query: object({ experimentKey }),
      answer: z.file(),
      shape: 'bytes',
      async handle({ query, caller, reply }) {
        const experiment = await access.experiment(caller, query.experimentKey)
        asPage(reply)
        return Readable.from([Buffer.from((await findDocument(database, experiment.id, 'html')) ?? '')])
      },
    }),
  ]
}

function asPage(reply: FastifyReply): FastifyReply {
  // Pages in the frames of notebooks show it too, and it has nothing that another page could lead a click to.
  reply.removeHeader('x-frame-options')
  // The frame has an origin of its own in any case; browsers warn of the header where the page above was placed already.
  reply.removeHeader('origin-agent-cluster')
  return reply.headers({
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy,
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cache-control': 'private, no-cache',
  })
}
