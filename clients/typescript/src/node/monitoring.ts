import { BaseMonitoringLogger, type MonitoringOptions as CommonOptions } from '../monitoring.ts'
import { type DatasetOptions, uploadDataset } from './dataset.ts'
import { createPlatform, type NodeOptions } from './platform.ts'

export type MonitoringOptions = CommonOptions & NodeOptions

/** Logs, from a program of Node, what a deployed model is asked and answers. */
export class MonitoringLogger extends BaseMonitoringLogger {
  /** @throws Error when a setting is missing or wrong, and says what to do */
  constructor(options: MonitoringOptions = {}) {
    super(createPlatform(options), options)
  }

  /**
   * Uploads a CSV file, each line as an event, and resolves when it is stored. An outage is waited for, and a file may be
   * uploaded again: what is stored of it stays as it is. It never rejects: what is wrong is told.
   */
  async uploadDatasetCsv(file: string, options: DatasetOptions): Promise<void> {
    try {
      await uploadDataset(this.parts, file, options)
    } catch (error) {
      const message = error instanceof Error ? error.message : String(error)
      this.parts.errors.add(`uploadDatasetCsv: ${message}`, [String(file)])
    }
  }
}
