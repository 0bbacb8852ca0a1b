import { BaseExperiment, type ExperimentOptions as CommonOptions } from '../experiment.ts'
import { type Given, type PageAsset, platform } from './platform.ts'

export type ExperimentOptions = Given<CommonOptions>

/** An experiment that a page writes to. Its assets are bytes, or files that somebody has chosen. */
export class Experiment extends BaseExperiment<PageAsset> {
  private constructor(options: ExperimentOptions, isNew: boolean) {
    super(platform, options, isNew)
    // A page may close at any moment: the service is told at once.
    void this.flush()
  }

  /**
   * Makes a new experiment. It has its key at once; the service is told as soon as it is there.
   *
   * @throws Error when a setting is missing or wrong, and says what to do
   */
  static create(options: ExperimentOptions): Experiment {
    return new Experiment(options, true)
  }

  /**
   * Goes on with an experiment that is there.
   *
   * @throws Error when a setting is missing or wrong, and says what to do
   */
  static continue(experimentKey: string, options: Omit<ExperimentOptions, 'experimentKey'>): Experiment {
    return new Experiment({ ...options, experimentKey } as ExperimentOptions, false)
  }
}
