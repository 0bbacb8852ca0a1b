import type { Shape } from './requests.ts'

export type QueueKind = 'redis' | 'postgres'

/** `service` is ours; the rest are what its figures are to be compared with. */
export type Target = 'service' | 'jobPerPoint' | 'rawInserts' | 'bareRoute'

export type Scenario = {
  name: string
  about: string
  target: Target
  queues: (QueueKind | 'none')[]
  shape: Shape
  connections: number
  /** Experiments are made for so many points; a round that uses them up ends early, and its rate is still true. */
  pointsPerSecondMax: number
}

const both: QueueKind[] = ['redis', 'postgres']
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
    connections: 256,
    pointsPerSecondMax: 60_000,
  },
  {
    name: 'rows',
    about: '1,000 points a request, as rows',
    target: 'service',
    queues: both,
    shape: rows1000,
    connections: 16,
    pointsPerSecondMax: 800_000,
  },
  {
    name: 'columns',
    about: '1,000 points a request, as columns',
    target: 'service',
    queues: both,
    shape: columns1000,
    connections: 16,
    pointsPerSecondMax: 1_500_000,
  },
  {
    name: 'columns-10000',
    about: '10,000 points a request, as columns',
    target: 'service',
    queues: both,
    shape: columns10000,
    connections: 8,
    pointsPerSecondMax: 1_500_000,
  },
  {
    name: 'baseline-job-per-point',
    about: 'one point a request, one BullMQ job a point',
    target: 'jobPerPoint',
    queues: ['redis'],
    shape: { kind: 'single' },
    connections: 256,
    pointsPerSecondMax: 60_000,
  },
  {
    name: 'baseline-raw-inserts',
    about: 'finished blocks of 100,000 rows, straight into ClickHouse',
    target: 'rawInserts',
    queues: ['none'],
    shape: rows1000,
    connections: 2,
    pointsPerSecondMax: 0,
  },
  {
    name: 'baseline-bare-route',
    about: 'one point a request, parsed and forgotten by a bare Fastify route',
    target: 'bareRoute',
    queues: ['none'],
    shape: { kind: 'single' },
    connections: 256,
    pointsPerSecondMax: 60_000,
  },
]
