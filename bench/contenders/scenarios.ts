import { type DataSet, dataSet } from '../../test/kit/curves.ts'
import type { Shape } from '../load/dialects.ts'

export type QueueKind = 'redis' | 'postgres'

/** `service`: one process per role; `up`: all roles in one process; the others are baselines. */
export type Target = 'service' | 'up' | 'jobPerPoint' | 'rawInserts' | 'bareRoute'

export type Scenario = {
  name: string
  about: string
  target: Target
  queues: (QueueKind | 'none')[]
  shape: Shape
  /** In the form of clients of MLflow instead of ours. */
  dialect?: 'mlflowBatch'
  data: DataSet
  /** Each pass adds steps to the same experiments instead of creating new ones. */
  keepsExperiments?: boolean
  connections: number
  /** Enough experiments are created for this rate. A faster round ends early; its measured rate is still correct. */
  pointsPerSecondMax: number
}

const both: QueueKind[] = ['redis', 'postgres']
/** A request with a single point has 400 bytes: 100 steps fit into 200 MB. */
const singles: DataSet = { ...dataSet, steps: 100 }
const rows1000: Shape = { kind: 'rows', stepsPerRequest: 20 }
const columns1000: Shape = { kind: 'columns', stepsPerRequest: 20 }
const columns10000: Shape = { kind: 'columns', stepsPerRequest: 200 }

export const scenarios: Scenario[] = [
  {
    name: 'single',
    about: 'one point a request',
    target: 'service',
    queues: both,
    shape: { kind: 'single' },
    data: singles,
    connections: 256,
    pointsPerSecondMax: 60_000,
  },
  {
    name: 'rows',
    about: '1,000 points a request, as rows',
    target: 'service',
    queues: both,
    shape: rows1000,
    data: dataSet,
    connections: 16,
    pointsPerSecondMax: 800_000,
  },
  {
    name: 'columns',
    about: '1,000 points a request, as columns',
    target: 'service',
    queues: both,
    shape: columns1000,
    data: dataSet,
    connections: 16,
    pointsPerSecondMax: 1_500_000,
  },
  {
    name: 'arrow',
    about: '1,000 points a request, as columns of an Arrow stream',
    target: 'service',
    queues: both,
    shape: { kind: 'arrow', stepsPerRequest: 20 },
    data: dataSet,
    connections: 16,
    pointsPerSecondMax: 2_000_000,
  },
  {
    name: 'mlflow-batches',
    about: '1,000 points a request, as log-batch of MLflow’s clients',
    target: 'service',
    queues: both,
    shape: rows1000,
    dialect: 'mlflowBatch',
    data: dataSet,
    connections: 16,
    pointsPerSecondMax: 800_000,
  },
  {
    name: 'columns-10000',
    about: '10,000 points a request, as columns',
    target: 'service',
    queues: both,
    shape: columns10000,
    data: dataSet,
    connections: 8,
    pointsPerSecondMax: 1_500_000,
  },
  {
    name: 'columns-10000-experiments',
    about: '10,000 experiments with 100 metrics each, 1,000 points a request, as columns',
    target: 'service',
    queues: both,
    shape: { kind: 'columns', stepsPerRequest: 10 },
    data: { experiments: 10_000, metrics: 100, steps: 400 },
    keepsExperiments: true,
    connections: 16,
    pointsPerSecondMax: 1_200_000,
  },
  {
    name: 'up-single',
    about: 'one point a request, all roles in one process as "svc up" runs them',
    target: 'up',
    queues: ['postgres'],
    shape: { kind: 'single' },
    data: singles,
    connections: 256,
    pointsPerSecondMax: 60_000,
  },
  {
    name: 'up-columns',
    about: '1,000 points a request, as columns, all roles in one process as "svc up" runs them',
    target: 'up',
    queues: ['postgres'],
    shape: columns1000,
    data: dataSet,
    connections: 16,
    pointsPerSecondMax: 1_200_000,
  },
  {
    name: 'baseline-job-per-point',
    about: 'one point a request, one BullMQ job a point',
    target: 'jobPerPoint',
    queues: ['redis'],
    shape: { kind: 'single' },
    data: singles,
    connections: 256,
    pointsPerSecondMax: 60_000,
  },
  {
    name: 'baseline-raw-inserts',
    about: 'finished blocks of 100,000 rows, straight into ClickHouse',
    target: 'rawInserts',
    queues: ['none'],
    shape: rows1000,
    data: dataSet,
    connections: 2,
    pointsPerSecondMax: 0,
  },
  {
    name: 'baseline-bare-route',
    about: 'one point a request, parsed and forgotten by a bare Fastify route',
    target: 'bareRoute',
    queues: ['none'],
    shape: { kind: 'single' },
    data: singles,
    connections: 256,
    pointsPerSecondMax: 60_000,
  },
]
