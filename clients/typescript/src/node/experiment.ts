import { BaseExperiment, type ExperimentOptions as CommonOptions } from '../experiment.ts'
import { createPlatform, type NodeOptions } from './platform.ts'

export type ExperimentOptions = CommonOptions & NodeOptions

/** An experiment that a program of Node writes to. Its assets are paths of files, or bytes. */
export class Experiment extends BaseExperiment<string | Uint8Array> {
  private constructor(options: ExperimentOptions, isNew: boolean) {
    super(createPlatform(options), options, isNew)
  }

  /**
   * Makes a new experiment. It has its key at once; the service is told as soon as it is there.
   *
   * @throws Error when a setting is missing or wrong, and says what to do
   */
  static create(options: ExperimentOptions = {}): Experiment {
    return new Experiment(options, true)
  }

  /**
   * Goes on with an experiment that is there.
   *
   * @throws Error when a setting is missing or wrong, and says what to do
   */
  static continue(experimentKey: string, options: Omit<ExperimentOptions, 'experimentKey'> = {}): Experiment {
    return new Experiment({ ...options, experimentKey }, false)
  }
}
