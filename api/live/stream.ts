import { Readable } from 'node:stream'
import { z } from 'zod'
import { experimentKey, object } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { Access } from '../access.ts'
import { parseEventId, toStart } from './position.ts'
import type { LiveStreams } from './streams.ts'

type Deps = { access: Access; liveStreams: LiveStreams }

/** Streams updates of an experiment to subscribers. */
export function createExperimentStreamRoutes({ access, liveStreams }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/experiment/stream',
      permission: 'reader',
      topic: 'Experiments: reading the stream',
      summary:
        'Streams updates as Server-Sent Events: `state` (the metadata; first, and when it changes), `metrics` ' +
        '(`{metrics: [...]}` as in get-metric) and `output` (`{outputLines: [{output, stderr, timestamp, offset, ' +
        'runContext}]}`). They arrive a second or two after they were sent, five under load. Each point and line comes ' +
        'once, in the order of acceptance. With the header Last-Event-ID the stream resumes after that event and neither ' +
        'skips nor repeats one; without it, the stream begins with what is accepted from now on. After an outage it ' +
        'resumes once everything is stored.',
      query: object({ experimentKey }),
      answer: z.string(),
      shape: 'bytes',
      async handle({ query, caller, request, reply }) {
        const lastId = request.headers['last-event-id']
        const position = lastId === undefined ? toStart(Date.now()) : parseEventId(String(lastId))
        const experiment = await access.experiment(caller, query.experimentKey)
        const mayRead = () =>
          access.experiment(caller, query.experimentKey).then(
            () => true,
            // While the store is down, the permission is assumed to be unchanged.
            (error: unknown) => !(error instanceof HttpError),
          )
        const { events, leave } = liveStreams.open(experiment, position, mayRead)
        reply.raw.once('close', leave)
        // The reader may have disconnected during the lookup.
        if (reply.raw.destroyed) leave()
        reply.headers({
          'content-type': 'text/event-stream',
          'cache-control': 'no-store',
          // Or else nginx buffers events.
          'x-accel-buffering': 'no',
        })
        return Readable.from(events, { objectMode: false })
      },
    }),
  ]
}
