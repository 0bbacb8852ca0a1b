import { z } from 'zod'
import { list, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { EventReader } from '../../store/clickhouse/monitoring/reader.ts'
import { createSegmentReader, type Filter, operators } from '../../store/clickhouse/monitoring/segment-reader.ts'
import { insertAudit } from '../../store/postgres/accounts/audit.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  deleteSegment,
  findSegment,
  insertSegment,
  listSegments,
  segmentsMax,
} from '../../store/postgres/monitoring/segments.ts'
import type { Access } from '../access.ts'
import { expected } from './fields.ts'

const filtersMax = 10
const valuesMax = 50

const parts = ['feature', 'prediction'] as const
/** How many values an operator takes. */
const valuesOf: Record<Filter['operator'], [least: number, most: number]> = {
  equals: [1, 1],
  'not equals': [1, 1],
  in: [1, valuesMax],
  below: [1, 1],
  'at most': [1, 1],
  above: [1, 1],
  'at least': [1, 1],
  missing: [0, 0],
  present: [0, 0],
}
const needsNumber: readonly Filter['operator'][] = ['below', 'at most', 'above', 'at least']

const value = z.union([text(500), z.number(), z.boolean()], { error: 'expected a string, a number or a boolean' })

const filter = object({
  part: optional(z.enum(parts, expected(parts))).describe('feature when absent'),
  feature: text(1_000, 1),
  operator: z.enum(operators, expected(operators)),
  values: optional(list(value, valuesMax)).describe('one; some for in; none for missing and present'),
})

/** The filters of a segment: an event of the segment meets them all. */
const filters = list(filter, filtersMax)
  .min(1, 'must have an entry')
  .transform((all, context): Filter[] =>
    all.map(({ part = 'feature', feature, operator, values = [] }, at) => {
      const [least, most] = valuesOf[operator]
      const reject = (message: string) => context.addIssue({ code: 'custom', message, path: [at, 'values'] })
      if (values.length < least) reject(`is missing: ${operator} needs a value`)
      if (values.length > most) reject(most === 0 ? `${operator} takes no value` : `${operator} takes one value`)
      if (needsNumber.includes(operator) && values.some((it) => typeof it !== 'number')) {
        reject(`${operator} needs a number`)
      }
      return { part, feature, operator, values }
    }),
  )

const filterAnswer = z.object({
  part: z.enum(parts),
  feature: z.string(),
  operator: z.enum(operators),
  values: z.array(z.union([z.string(), z.number(), z.boolean()])),
})

/** The part of the events that a read is about. */
export const segmentFields = {
  segment: optional(text(200, 1)).describe('only the events of this segment'),
  filters: optional(
    text(100_000).transform((given, context): Filter[] => {
      const parsed = filters.safeParse(toJson(given))
      if (parsed.success) return parsed.data
      for (const { message, path } of parsed.error.issues) context.addIssue({ code: 'custom', message, path })
      return z.NEVER
    }),
  ).describe('JSON: the filters of a segment that is not saved'),
}

function toJson(given: string): unknown {
  try {
    return JSON.parse(given)
  } catch {
    return undefined
  }
}

type Asked = { segment?: string | undefined; filters?: Filter[] | undefined }

/** Opens readers of a part of the events of a model. */
export function createSegmentReaders({ database, eventReader }: { database: Database; eventReader: EventReader }) {
  return {
    /** Reads all events. */
    all: eventReader,

    /**
     * The reader of the events that a read is about: all of them without a segment. Of the model `whole` all are read.
     *
     * @throws HttpError `segmentUnknown`
     */
    async open(
      { workspace, name }: { workspace: { id: string }; name: string },
      { segment, filters = [] }: Asked,
      whole?: bigint,
    ): Promise<EventReader> {
      const saved =
        segment === undefined
          ? undefined
          : await findSegment(database, { workspaceId: workspace.id, modelName: name }, segment)
      if (segment !== undefined && !saved) {
        throw new HttpError('segmentUnknown', `segment: the model has no segment "${segment}".`)
      }
      const all = [...(saved?.filters ?? []), ...filters]
      return all.length === 0 ? eventReader : createSegmentReader(eventReader, all, whole)
    },
  }
}

export type SegmentReaders = ReturnType<typeof createSegmentReaders>

type Deps = { database: Database; access: Access }

const common = { permission: 'caller', topic: 'Production monitoring', atRoot: true } as const
const ofModel = object({ workspaceName: text(1_000, 1), modelName: text(1_000, 1) })

/** Segments of models. Every user of the workspace may read and change them. */
export function createMonitoringSegmentRoutes({ database, access }: Deps): Route[] {
  return [
    route({
      ...common,
      method: 'POST',
      path: '/mpm/v2/segments',
      charge: 'call',
      summary:
        'Saves a segment of a model: the events that meet all of some filters on their features or predictions, and the ' +
        'labels of these events. Reads take its name as `segment`. They compare it with the same segment of the reference, or ' +
        'with all of the reference if that has no event in the segment. A value is ' +
        'compared with numbers as a number, else as text; an event without the value meets `missing` only.',
      body: object({ ...ofModel.shape, name: text(200, 1), filters }),
      answer: z.object({ segmentId: z.string() }),
      shape: 'envelope',
      async handle({ body: { workspaceName, modelName, name, filters }, caller }) {
        const { id: workspaceId } = await access.writableWorkspace(caller, workspaceName)
        return await database.transaction(async (queries) => {
          const { userName } = caller
          const new_ = { workspaceId, modelName, name, filters, userName, nowMs: Date.now() }
          const made = await insertSegment(queries, new_)
          if (made === 'taken') {
            throw new HttpError(
              'segmentTaken',
              `name: the model has a segment "${name}": delete it, or use another name.`,
            )
          }
          if (made === 'full') {
            throw new HttpError(
              'segmentsFull',
              `The model has reached the limit of ${segmentsMax} segments: delete some.`,
            )
          }
          await insertAudit(queries, caller, 'segment.created', name, { workspaceName, modelName })
          return { segmentId: made.id }
        })
      },
    }),

    route({
      ...common,
      method: 'GET',
      path: '/mpm/v2/segments',
      summary: 'Lists the segments of a model by name.',
      query: ofModel,
      answer: z.object({
        segments: z.array(
          z.object({
            segmentId: z.string(),
            name: z.string(),
            filters: z.array(filterAnswer),
            userName: z.string(),
            createdAt: z.int().describe('ms since the Unix epoch'),
          }),
        ),
      }),
      shape: 'plain',
      async handle({ query: { workspaceName, modelName }, caller }) {
        const { id: workspaceId } = await access.workspace(caller, workspaceName)
        const segments = await listSegments(database, { workspaceId, modelName })
        return {
          segments: segments.map(({ id, createdAtMs, ...it }) => ({ ...it, segmentId: id, createdAt: createdAtMs })),
        }
      },
    }),

    route({
      ...common,
      method: 'DELETE',
      path: '/mpm/v2/segments/{segmentId}',
      charge: 'call',
      summary: 'Deletes a segment. Its events stay.',
      params: object({ segmentId: z.uuid('expected the segmentId of an answer') }),
      query: object({ workspaceName: text(1_000, 1) }),
      answer: z.object({ segmentId: z.string() }),
      shape: 'envelope',
      async handle({ query: { workspaceName }, params: { segmentId }, caller }) {
        const { id: workspaceId } = await access.writableWorkspace(caller, workspaceName)
        return await database.transaction(async (queries) => {
          const deleted = await deleteSegment(queries, workspaceId, segmentId)
          if (!deleted) throw new HttpError('segmentUnknown', `The workspace has no segment ${segmentId}.`)
          await insertAudit(queries, caller, 'segment.deleted', deleted.name, {
            workspaceName,
            modelName: deleted.modelName,
          })
          return { segmentId }
        })
      },
    }),
  ]
}
