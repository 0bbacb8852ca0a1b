import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { z } from 'zod'
import { experimentKey, list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { findActor } from '../../store/postgres/accounts/audit.ts'
import type { Database } from '../../store/postgres/database.ts'
import { listChartExperiments } from '../../store/postgres/experiments/chart-experiments.ts'
import { listExperimentsById } from '../../store/postgres/experiments/experiments.ts'
import { listActiveRuns } from '../../store/postgres/experiments/runs.ts'
import type { Tenants } from '../../throttle/tenants.ts'
import { type Access, type ProjectQuery, toViewer } from '../access.ts'
import { projectQuery } from '../projects/projects.ts'
import type { ChangeStreams } from './changes.ts'
import { parseEventId, toStart } from './position.ts'
import type { LiveStreams } from './streams.ts'

type Deps = {
  database: Database
  access: Access
  tenants: Tenants
  liveStreams: LiveStreams
  changeStreams: ChangeStreams
}

const keysMax = 1_000

const eventStream = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-store',
  // Or else nginx buffers events.
  'x-accel-buffering': 'no',
}

/** Streams updates of an experiment to subscribers. */
export function createExperimentStreamRoutes({ database, access, tenants, liveStreams, changeStreams }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/experiment/stream',
      permission: 'reader',
      topic: 'Experiments: reading the stream',
      summary:
        'Streams updates as Server-Sent Events: `state` (the metadata; first, and when it changes), `metrics` ' +
        '(`{metrics: [...]}` as in get-metric) and `output` (`{outputLines: [{output, stderr, timestamp, offset, ' +
        'runContext}]}`). They arrive a second or two after they were sent. Each point and line comes ' +
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
        return await open(reply, () =>
          liveStreams.open(experiment, position, () => mayRead(caller, access.experiment(caller, query.experimentKey))),
        )
      },
    }),

    route({
      method: 'POST',
      path: '/experiments/stream',
      charge: 'none',
      permission: 'reader',
      topic: 'Experiments: reading the stream',
      summary:
        'Streams what changes in many experiments as Server-Sent Events: `state` (the metadata; of ' +
        'named experiments first, of a project’s when they are active, and when it changes) and `changes` (`{position, ' +
        'metrics: [{experimentKey, metricName, context, lastStep, lastValue, lastTime, count}], output: [{experimentKey, ' +
        'lines}]}`, where count and lines are what is new), `deleted` (`{experimentKey}`, of those that were named) and ' +
        '`stored` (`{experimentKeys}`: there is something newer of these, as of now and without a promise that `changes` ' +
        'keeps: that all accepted before it is stored, too). It begins at the `position` of a live read or of an earlier ' +
        'event, without a gap or a repetition, otherwise now. Runs that begin in a project join by themselves. ' +
        'Experiments that this key may not see are left out.',
      body: object({
        ...projectQuery.shape,
        experimentKeys: optional(list(experimentKey, keysMax)).describe('instead of a project'),
        position: optional(text(200, 1)),
      }),
      answer: z.string(),
      shape: 'bytes',
      async handle({ body: { experimentKeys, position, ...project }, caller, reply }) {
        const after = position === undefined ? undefined : parseEventId(position, 'position')
        const scope =
          experimentKeys === undefined
            ? await toProjectScope(caller, project)
            : await toKeysScope(caller, [...new Set(experimentKeys)])
        return await open(reply, () => changeStreams.open(scope, after))
      },
    }),
  ]

  /** Sends the events of a stream, within the limit of the tenant, until the reader leaves. */
  async function open(reply: FastifyReply, openEvents: () => ReturnType<LiveStreams['open']>) {
    const release = await tenants.hold('streamsMax')
    let stream: ReturnType<LiveStreams['open']>
    try {
      stream = openEvents()
    } catch (error) {
      release()
      throw error
    }
    const { events, leave } = stream
    const end = () => {
      leave()
      release()
    }
    reply.raw.once('close', end)
    // The reader may have disconnected during the lookup.
    if (reply.raw.destroyed) end()
    reply.headers(eventStream)
    return Readable.from(events, { objectMode: false })
  }

  async function toProjectScope(caller: Caller, project: ProjectQuery) {
    const { projectId } = await access.project(caller, project)
    return {
      isNamed: false,
      list: (activeSinceMs: number) => listActiveRuns(database, projectId, activeSinceMs),
      mayRead: () => mayRead(caller, access.project(caller, { projectId })),
    }
  }

  /** The experiments that the caller may see; looked up again with the permission. */
  async function toKeysScope(caller: Caller, keys: string[]) {
    const find = async () => {
      const found = await listChartExperiments(database, toViewer(caller), keys, [])
      if (found[0]) tenants.note(found[0].workspaceName)
      return found.map((it) => it.id)
    }
    let ids = await find()
    return {
      isNamed: true,
      list: () => listExperimentsById(database, ids),
      mayRead: () =>
        mayRead(
          caller,
          find().then((found) => {
            ids = found
          }),
        ),
    }
  }

  /**
   * False when the right is gone, or the key or session that the stream was opened with. While the store is down, both are assumed
   * to be unchanged.
   */
  async function mayRead(caller: Caller, lookup: Promise<unknown>): Promise<boolean> {
    const isVisitor = caller.userName === ''
    const [right, known] = await Promise.allSettled([lookup, isVisitor ? true : findActor(database, caller)])
    if (right.status === 'rejected' && right.reason instanceof HttpError) return false
    return known.status === 'rejected' || known.value !== undefined
  }
}
