import { z } from 'zod'
import { clientTopic, type RouteDescription } from '../http/route.ts'
import { mlflowDescriptions } from './mlflow/descriptions.ts'
import { eventDescriptions } from './monitoring/descriptions.ts'
import { outputFields } from './output/output-line.ts'
import { batchFields } from './points/batch.ts'
import { loggedBatchFields } from './points/logged-batch.ts'
import { metricFields } from './points/metric.ts'
import { cpuFields, gpuFields, loadFields, ramFields } from './points/system-metrics.ts'

/** What the writes to experiments take and answer; `routes.ts` adds the handlers. */

const common = {
  method: 'POST',
  charge: 'own',
  permission: 'caller',
  topic: 'Experiments: the stream',
  shape: 'envelope',
} as const

const savedAnswer = z.object({ msg: z.literal('Saved') })

const requestBytesMax = 16 * 1024 * 1024

export const metric = {
  ...common,
  path: '/write/experiment/metric',
  summary: 'Logs one point of a metric. Metrics are the only values kept as full time series.',
  body: metricFields,
  answer: savedAnswer,
  checksOwnBody: true,
} satisfies RouteDescription

export const metricsBatch = {
  ...common,
  path: '/write/experiment/metrics/batch',
  summary:
    'Logs many points, as rows or as columns. A wrong point is rejected and reported; the others are stored. An Apache Arrow ' +
    'stream has the same names as columns, and the experimentKey in the metadata of its schema.',
  body: batchFields,
  takesArrow: true,
  answer: z.object({
    msg: z.literal('Saved'),
    accepted: z.int().describe('points stored'),
    rejected: z.array(z.object({ index: z.int(), msg: z.string() })).describe('wrong points, the first 1,000'),
    rejectedCount: z.int(),
    throttled: z.int().describe('points dropped over the limit on metric names or on points per metric'),
  }),
  checksOwnBody: true,
  bodyBytesMax: requestBytesMax,
} satisfies RouteDescription

export const gpuMetrics = {
  ...common,
  path: '/write/experiment/gpu-metrics',
  summary: 'Logs memory and utilization of GPUs.',
  body: gpuFields,
  answer: savedAnswer,
} satisfies RouteDescription

export const ramMetrics = {
  ...common,
  path: '/write/experiment/ram-metrics',
  summary: 'Logs the use of memory, in bytes.',
  body: ramFields,
  answer: savedAnswer,
} satisfies RouteDescription

export const cpuMetrics = {
  ...common,
  path: '/write/experiment/cpu-metrics',
  summary: 'Logs the utilization of each CPU, in percent.',
  body: cpuFields,
  answer: savedAnswer,
} satisfies RouteDescription

export const loadMetrics = {
  ...common,
  path: '/write/experiment/load-metrics',
  summary: 'Logs the load average.',
  body: loadFields,
  answer: savedAnswer,
} satisfies RouteDescription

export const output = {
  ...common,
  path: '/write/experiment/output',
  summary: 'Logs lines of output. `stderr: true` means standard error; lines are read back in the order of `offset`.',
  body: outputFields,
  answer: savedAnswer,
  bodyBytesMax: requestBytesMax,
} satisfies RouteDescription

export const loggedBatch = {
  ...common,
  path: '/clientlib/batch/logger/experiment/metric',
  atRoot: true,
  topic: clientTopic,
  summary:
    'Takes the points of a client that logs live, resource usage among them. A point that comes again is stored once. ' +
    'With a wrong point the answer is 400; the others are stored.',
  body: loggedBatchFields,
  answer: savedAnswer,
  checksOwnBody: true,
  bodyBytesMax: requestBytesMax,
} satisfies RouteDescription

/** Every route of the write tier, for the OpenAPI document of a process that does not serve them. */
export const ingestDescriptions: RouteDescription[] = [
  metric,
  metricsBatch,
  gpuMetrics,
  ramMetrics,
  cpuMetrics,
  loadMetrics,
  output,
  loggedBatch,
  ...mlflowDescriptions,
  ...eventDescriptions,
]
