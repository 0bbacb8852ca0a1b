export type { DatasetOptions } from './dataset.ts'
export type { Log, LoggingError } from './error-log.ts'
export { type AssetOptions, Experiment, type ExperimentOptions, type MetricPlace } from './experiment.ts'
export {
  type Event,
  type Labels,
  MonitoringLogger,
  type MonitoringOptions,
  type Scalar,
  type Scalars,
} from './monitoring.ts'
export type { ConnectionOptions } from './settings.ts'
