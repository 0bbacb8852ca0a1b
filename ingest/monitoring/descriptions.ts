import { z } from 'zod'
import { flag, object, optional, text } from '../../http/body/fields.ts'
import type { RouteDescription } from '../../http/route.ts'

/** What the routes of production monitoring take and answer; `routes.ts` and `csv/upload.ts` add the handlers. */

const common = { charge: 'own', permission: 'caller', topic: 'Production monitoring', atRoot: true } as const

export const ping = {
  ...common,
  method: 'GET',
  path: '/mpm/isAlive/ping',
  charge: 'none',
  summary: 'Answers 200 when the service runs and the key is registered.',
  answer: z.object({ msg: z.string() }),
  shape: 'envelope',
} satisfies RouteDescription

const scalar = z.union([z.number(), z.string(), z.boolean(), z.null()])
const scalars = z.record(z.string(), scalar)
const item = {
  workspaceName: z.string(),
  modelName: z.string().describe('created with its first event'),
  modelVersion: z.string().nullish(),
  predictionId: z.string().describe('stored once for each model; later items with the same id are duplicates'),
  timestamp: z.int().nullish().describe('ms since the Unix epoch; the time of receipt when absent'),
}
const labels = z.union([scalars, scalar]).describe('names and values; a value by itself is named `value`')

// `event.ts` checks items: a schema would cost too much. These only document them.
const events = z.object({
  data: z.array(
    z.object({
      ...item,
      features: scalars
        .nullish()
        .describe('names and values: integers, floats, booleans, strings; null means a missing value'),
      prediction: z
        .union([scalars, scalar])
        .nullish()
        .describe('like labels; `probability` must be from 0 to 1. May also be named `predictions`'),
      predictions: z.union([scalars, scalar]).nullish(),
      labels: labels.nullish(),
      value: labels.nullish().describe('another name for `labels`'),
    }),
  ),
})
const lateLabels = z.object({
  data: z.array(z.object({ ...item, labels: labels.nullish(), value: labels.nullish() })),
})

const batch = {
  ...common,
  method: 'POST',
  query: object({
    enforceValidation: optional(flag).describe(
      'true: one wrong item rejects the whole batch. false, the default: only wrong items are rejected',
    ),
  }),
  answer: z.object({
    msg: z.literal('Saved'),
    accepted: z.int().describe('items stored: the first with their prediction id'),
    duplicates: z.int().describe('items not stored: their prediction id was stored before'),
    rejected: z.int().describe('items not stored: they are wrong'),
    labels: z
      .object({ accepted: z.int(), duplicates: z.int() })
      .describe('sets of labels, also those sent with events: the first for a prediction id is stored'),
    faults: z
      .array(z.object({ index: z.int(), field: z.string(), msg: z.string() }))
      .describe('the errors of rejected items, the first 1,000'),
  }),
  shape: 'envelope',
  checksOwnBody: true,
  bodyBytesMax: 16 * 1024 * 1024,
} as const

export const eventsBatch = {
  ...batch,
  path: '/mpm/v2/events/batch',
  summary:
    'Logs events of deployed models: features, prediction, labels. One batch may hold any models and workspaces; an item ' +
    'with nothing but labels is stored as labels. The first event with a prediction id is stored for good. Wrong items are ' +
    'rejected and reported, and the others stored; with `enforceValidation=true` one wrong item rejects the whole batch, ' +
    'and `data` lists every error.',
  body: events,
} satisfies RouteDescription

export const labelsBatch = {
  ...batch,
  path: '/mpm/v2/labels/batch',
  summary:
    'Logs labels of predictions, before or after their events. The first labels for a prediction id are stored for good.',
  body: lateLabels,
} satisfies RouteDescription

const name = optional(text(1_000))
/** The fields of a CSV upload besides the file, in the form or in the query. */
export const csvFields = object({
  workspaceName: name,
  modelName: name,
  modelVersion: name,
  datasetName: name.describe('needed for training events; a data set with a new name is created'),
  NAValues: optional(text(10_000)).describe(
    'more strings that mean a missing value, separated by commas. Default: the empty string, None, null, NULL, ' +
      'N/A, NA, NaN, n/a, nan',
  ),
  keepDefaultNAValues: optional(text(10)).describe('false: only the strings in NAValues mean a missing value'),
})

const file = z.any().meta({
  type: 'string',
  format: 'binary',
  description:
    'CSV (UTF-8); the first line names the columns: timestamp (ms), predictionId, feature_*, prediction_*, label_value_*',
})

const fieldsFirst = 'Send the form fields before the file, or in the query; they may follow a file smaller than 1 MiB.'

const csv = {
  ...common,
  method: 'POST',
  query: csvFields,
  upload: object({ file, ...csvFields.shape }),
  answer: z
    .string()
    .describe(
      'lines of JSON, sent while the file is read: `{line, msg}` for each wrong line (the first 1,000), ' +
        '`{lines, accepted, duplicates, rejected}` as progress, and at the end the same with the envelope, `done: true`, ' +
        '`labels` and `faults`. If the last `code` is not 200, the file was not read to its end',
    ),
  shape: 'bytes',
} as const

export const csvEvents = {
  ...csv,
  path: '/mpm/v2/data/events/csv',
  summary: `Logs a file of events of a deployed model, one per line. Wrong lines are rejected and reported. ${fieldsFirst}`,
} satisfies RouteDescription

export const csvLabels = {
  ...csv,
  path: '/mpm/v2/data/labels/csv',
  summary: `Logs a file of labels of predictions, one set per line, with the columns predictionId and label_value_*. ${fieldsFirst}`,
} satisfies RouteDescription

export const csvTrainingEvents = {
  ...csv,
  path: '/mpm/v2/dataset/events/csv',
  summary: `Logs a file as the data set \`datasetName\`: the reference that \`modelName\` is compared with. ${fieldsFirst}`,
} satisfies RouteDescription

export const eventDescriptions: RouteDescription[] = [
  ping,
  eventsBatch,
  labelsBatch,
  csvEvents,
  csvLabels,
  csvTrainingEvents,
]
