import { BaseMonitoringLogger, type MonitoringOptions as CommonOptions } from '../monitoring.ts'
import { type Given, platform } from './platform.ts'

export type MonitoringOptions = Given<CommonOptions>

/** Logs what a model that runs in a page is asked and answers. */
export class MonitoringLogger extends BaseMonitoringLogger {
  /** @throws Error when a setting is missing or wrong, and says what to do */
  constructor(options: MonitoringOptions) {
    super(platform, options)
    // A page that closes cannot ask for it any more. What is wrong is told when events are sent.
    void this.parts.transport.findWorkspace().catch(() => undefined)
  }
}
