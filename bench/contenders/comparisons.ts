import type { AppendFsync } from '../../test/kit/stores/redis.ts'
import { influxFields, influxLines, influxLinesWithStep } from '../peers/influxdb.ts'
import { mlflow } from '../peers/mlflow.ts'
import type { Peer } from '../peers/peer.ts'
import { trackio } from '../peers/trackio.ts'
import { victoriaMetrics, victoriaMetricsInflux } from '../peers/victoria-metrics.ts'
import type { QueueKind } from './scenarios.ts'

/**
 * All sides of a comparison alternate in one run, each on its own stores. Peers get the data set and the number of
 * connections of our first side.
 */
export type Comparison = {
  name: string
  about: string
  ours: Side[]
  peers: Peer[]
  /** Its sides do different work, so their rates are not compared. */
  isNoRace?: boolean
}

/** One of our scenarios, or of our baselines. */
export type Side = {
  scenario: string
  queue: QueueKind | 'none'
  /** Overrides the fsync policy of Redis given on the command line. */
  fsync?: AppendFsync
  /** Connections that slow clients hold at the same time. */
  slowClients?: number
}

const onRedis = (scenario: string): Side => ({ scenario, queue: 'redis' })

export const comparisons: Comparison[] = [
  {
    name: 'single',
    about: 'one point a request, 256 connections',
    ours: [onRedis('single'), onRedis('baseline-job-per-point'), { scenario: 'baseline-bare-route', queue: 'none' }],
    peers: [influxLines],
  },
  {
    name: 'rows',
    about: '1,000 points a request, as rows',
    ours: [onRedis('rows')],
    peers: [influxLines, influxLinesWithStep],
  },
  {
    name: 'columns',
    about: '1,000 points a request, as columns',
    ours: [onRedis('columns'), onRedis('arrow'), { scenario: 'baseline-raw-inserts', queue: 'none' }],
    peers: [influxLines, influxFields, victoriaMetrics, victoriaMetricsInflux, mlflow, trackio],
  },
  {
    name: 'mlflow',
    about: '1,000 points a request, as log-batch of MLflow’s clients',
    ours: [onRedis('mlflow-batches')],
    peers: [mlflow],
  },
  {
    name: 'fsync',
    about: 'one point a request: what Redis’ fsync before each answer costs',
    ours: [
      { ...onRedis('single'), fsync: 'everysec' },
      { ...onRedis('single'), fsync: 'always' },
    ],
    peers: [],
  },
  {
    name: 'scale',
    about: 'columns to 100 experiments with 50 metrics, and to 10,000 with 100',
    ours: [onRedis('columns'), onRedis('columns-10000-experiments')],
    peers: [],
  },
  {
    name: 'embedded',
    about: 'all roles in one process and the queue in Postgres, as "svc up" runs without a setting',
    ours: [
      { scenario: 'up-single', queue: 'postgres' },
      { scenario: 'up-columns', queue: 'postgres' },
    ],
    peers: [],
    isNoRace: true,
  },
  {
    name: 'hostile',
    about: 'one point a request, alone and beside 1,000 slow connections',
    ours: [onRedis('single'), { ...onRedis('single'), slowClients: 1_000 }],
    peers: [],
  },
]
