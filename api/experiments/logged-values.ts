import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import {
  checkFields,
  experimentKey,
  indexedText,
  int64,
  list,
  loggedText,
  object,
  optional,
  text,
  timestampMs,
} from '../../http/body/fields.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { ExperimentType } from '../../store/limits.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { RunStore } from '../../store/postgres/experiments/values.ts'
import {
  deleteTags,
  deleteValue,
  insertTags,
  type LastValue,
  listTags,
  listValues,
  upsertValues,
  type ValueKind,
} from '../../store/postgres/experiments/values.ts'
import type { Access } from '../access.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'

const topic = 'Experiments: parameters, others, tags'

const nameCharactersMax = 1_000
export const valueName = indexedText(nameCharactersMax)
export const valueContext = optional(text(nameCharactersMax))
const contextFields = { context: valueContext, runContext: valueContext }
const savedAnswer = z.object({ msg: z.string() })
export const addedTags = list(text(500, 1), 1_000)
const parametersDeletedMax = 1_000

/** A summary of each metric, parameter or other. */
export const valuesAnswer = z.object({
  values: z.array(
    z.object({
      name: z.string(),
      valueMax: z.string(),
      valueMin: z.string(),
      valueCurrent: z.string(),
      timestampMax: z.int(),
      timestampMin: z.int(),
      timestampCurrent: z.int(),
      runContextMax: z.string().nullable(),
      runContextMin: z.string().nullable(),
      runContextCurrent: z.string().nullable(),
      stepMax: z.int().nullable(),
      stepMin: z.int().nullable(),
      stepCurrent: z.int().nullable(),
      editable: z.boolean(),
    }),
  ),
})

/** What writes the values of runs. */
export type RunValueDeps = {
  database: Database
  access: Access
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
  runStore: RunStore
}

/** Parameters and others: an experiment keeps the last value of each. */
export function createLoggedDataRoutes({ database, access, heartbeats, rateLimited, runStore }: RunValueDeps): Route[] {
  async function save(
    type: ExperimentType,
    caller: Caller,
    key: string,
    write: (experimentId: bigint) => Promise<unknown>,
  ) {
    const experiment = await access.writableExperiment(caller, key)
    await rateLimited(type, experiment, caller, () => write(experiment.id))
    heartbeats.active(experiment.id, Date.now())
    return { msg: 'Saved' }
  }

  const parameter = route({
    method: 'POST',
    path: '/write/experiment/parameter',
    charge: 'own',
    permission: 'caller',
    topic,
    summary: 'Logs a parameter. Only the last value of each context is kept; its name is then `<context>_<name>`.',
    body: object({
      experimentKey,
      parameterName: valueName,
      parameterValue: loggedText,
      ...contextFields,
      step: optional(int64),
      timestamp: optional(timestampMs),
    }),
    answer: savedAnswer,
    shape: 'envelope',
    handle: ({ body, caller }) =>
      save('parameters', caller, body.experimentKey, (id) =>
        upsertValues(runStore, id, 'parameter', [
          {
            name: body.parameterName,
            context: toContext(body, body.parameterName),
            value: body.parameterValue,
            step: body.step,
            timestampMs: body.timestamp ?? Date.now(),
          },
        ]),
      ),
  })

  const other = route({
    method: 'POST',
    path: '/write/experiment/log-other',
    charge: 'own',
    permission: 'caller',
    topic,
    summary:
      'Logs a key and a value. Only the last value of each context is kept, as `<context>_<key>`. The key `Name` without a ' +
      'context renames the experiment.',
    body: object({
      experimentKey,
      key: valueName,
      value: loggedText,
      ...contextFields,
      timestamp: optional(timestampMs),
    }),
    answer: savedAnswer,
    shape: 'envelope',
    handle: ({ body, caller }) =>
      save('other', caller, body.experimentKey, (id) =>
        upsertValues(runStore, id, 'other', [
          {
            name: body.key,
            context: toContext(body, body.key),
            value: body.value,
            timestampMs: body.timestamp ?? Date.now(),
          },
        ]),
      ),
  })

  const parameterToDelete = object({ experimentKey, parameterName: text(2 * nameCharactersMax + 1, 1) })

  const deleteParameter = route({
    method: 'POST',
    path: '/write/experiment/parameter/delete',
    charge: 'own',
    permission: 'caller',
    topic,
    summary: 'Deletes a parameter, by its name in a summary. One that is not there is no error.',
    body: parameterToDelete,
    answer: savedAnswer,
    shape: 'envelope',
    handle: ({ body, caller }) =>
      save('parameters', caller, body.experimentKey, (id) =>
        deleteValue(database, id, 'parameter', body.parameterName),
      ),
  })

  const deleteParameters = route({
    method: 'POST',
    path: '/write/experiments/parameters/delete',
    charge: 'own',
    permission: 'caller',
    topic,
    summary: 'Deletes parameters of any experiments, as a list. Those that are not there are no error.',
    body: list(parameterToDelete, parametersDeletedMax),
    answer: savedAnswer,
    shape: 'envelope',
    async handle({ body, caller }) {
      // All are checked before the first is deleted.
      for (const key of new Set(body.map((it) => it.experimentKey))) await access.writableExperiment(caller, key)
      for (const { experimentKey, parameterName } of body) {
        await save('parameters', caller, experimentKey, (id) => deleteValue(database, id, 'parameter', parameterName))
      }
      return { msg: 'Saved' }
    },
  })

  const removeTags = route({
    method: 'POST',
    path: '/write/experiment/tags/delete',
    charge: 'own',
    permission: 'caller',
    topic,
    summary: 'Removes tags. Those that are not there are no error.',
    body: object({ experimentKey, tags: addedTags }),
    answer: savedAnswer,
    shape: 'envelope',
    handle: ({ body, caller }) =>
      save('other', caller, body.experimentKey, (id) => deleteTags(database, id, body.tags)),
  })

  const addTags = route({
    method: 'POST',
    path: '/write/experiment/tags',
    charge: 'own',
    permission: 'caller',
    topic,
    summary: 'Adds tags and keeps the others.',
    body: object({ experimentKey, addedTags: optional(addedTags) }),
    answer: savedAnswer,
    shape: 'envelope',
    handle: ({ body, caller }) =>
      save('other', caller, body.experimentKey, (id) => insertTags(runStore, id, body.addedTags ?? [])),
  })

  const tags = route({
    method: 'GET',
    path: '/experiment/tags',
    permission: 'reader',
    topic,
    summary: 'Reads the tags in the order they were added.',
    query: object({ experimentKey }),
    answer: z.object({ tags: z.array(z.string()) }),
    shape: 'plain',
    async handle({ query, caller }) {
      const experiment = await access.experiment(caller, query.experimentKey)
      return { tags: await listTags(database, experiment.id) }
    },
  })

  function values(path: string, kind: ValueKind, summary: string): Route {
    return route({
      method: 'GET',
      path,
      permission: 'reader',
      topic,
      summary,
      query: object({ experimentKey }),
      answer: valuesAnswer,
      shape: 'plain',
      async handle({ query, caller }) {
        const experiment = await access.experiment(caller, query.experimentKey)
        const found = await listValues(database, experiment.id, kind)
        return { values: found.map(toSummary) }
      },
    })
  }

  return [
    parameter,
    deleteParameter,
    deleteParameters,
    other,
    addTags,
    removeTags,
    tags,
    values('/experiment/parameters', 'parameter', 'Reads the parameters.'),
    values('/experiment/log-other', 'other', 'Reads the others. A new experiment has exactly one: `Name`.'),
  ]
}

/** Clients spell the context in two ways. @throws HttpError when the name in its context is too long */
export function toContext(
  { context, runContext }: { context?: string | undefined; runContext?: string | undefined },
  own: string,
) {
  const given = context ?? runContext
  if (given) checkFields(object({ context: indexedText(2 * nameCharactersMax + 1) }), { context: `${given}_${own}` })
  return given
}

/** The summary of a single value, in the shape of a metric's: minimum and maximum are the value. */
function toSummary({ name, context, value, step, timestampMs }: LastValue) {
  const at = toJsonInteger(timestampMs)
  const stepNumber = step === null ? null : toJsonInteger(step)
  return {
    name,
    valueMax: value,
    valueMin: value,
    valueCurrent: value,
    timestampMax: at,
    timestampMin: at,
    timestampCurrent: at,
    runContextMax: context,
    runContextMin: context,
    runContextCurrent: context,
    stepMax: stepNumber,
    stepMin: stepNumber,
    stepCurrent: stepNumber,
    editable: false,
  }
}
