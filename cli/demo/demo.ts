import { describeTerminal, type Output } from '../terminal/terminal.ts'
import { accountAnswer } from './answers.ts'
import { createClient } from './client.ts'
import { loadDigits, splitSamples } from './digits.ts'
import { DemoError } from './errors.ts'
import { createProgress, silentProgress } from './progress.ts'
import { readBack } from './read-back.ts'
import { type DemoReport, renderReport, toExperimentReport } from './report.ts'
import { type RunOutcome, runExperiment } from './run.ts'
import type { TrainingPlan } from './trainer.ts'

// Two real trainings of one small network on handwritten digits: one that learns, and one whose learning rate is so
// high that its numbers overflow. Both are logged as they happen, then read back and compared value for value.

const GOOD_RATE = 0.05
// At this rate the loss stopped being a number after 16 to 31 steps with each of 80 seeds.
const BAD_RATE = 1
const TRAIN_SHARE = 0.8
// Enough to see that a loss never comes back from NaN: about three epochs.
const BROKEN_STEPS_MAX = 150

export interface DemoOptions {
  /** The address of the service, such as http://localhost:8080. */
  url: string
  apiKey: string
  /** The key's default workspace when absent. */
  workspace?: string | undefined
  /** Created if missing; `demo` when absent. */
  project?: string | undefined
  /** Passes over the images, 30 when absent. */
  epochs?: number | undefined
  /** The same seed trains the same network; 7 when absent. */
  seed?: number | undefined
  out: Output
  /** Prints the report as one JSON document and nothing else. */
  json: boolean
  signal: AbortSignal
}

/**
 * Trains, logs, reads back, and prints progress and report on `out`. Resolves with the report, whose `ok` is false when
 * something read back differs; rejects with DemoError when the service cannot be used or `signal` is aborted.
 */
export async function runDemo(options: DemoOptions): Promise<DemoReport> {
  const { out, json, signal } = options
  const terminal = describeTerminal(out, process.env)
  const progress = json ? silentProgress : createProgress(out, terminal)
  try {
    const { report, runs } = await trainAndCompare(options, progress)
    progress.clear()
    const lines = json ? [JSON.stringify(report, null, 2)] : renderReport(report, runs, terminal)
    out.write(`${lines.join('\n')}\n`)
    return report
  } catch (error) {
    progress.clear()
    if (signal.aborted) throw new DemoError('interrupted: the service keeps what was logged so far')
    throw error
  }
}

async function trainAndCompare(
  { url, apiKey, workspace, project = 'demo', epochs = 30, seed = 7, signal }: DemoOptions,
  progress: typeof silentProgress,
): Promise<{ report: DemoReport; runs: RunOutcome[] }> {
  if (!Number.isInteger(epochs) || epochs < 1) throw new DemoError('--epochs must be a whole number of 1 or more')
  const client = createClient({ url, apiKey, signal, onWait: progress.say })
  const workspaceName = workspace ?? (await client.get('account-details', {}, accountAnswer)).defaultWorkspaceName
  const plan: Omit<TrainingPlan, 'learningRate'> = {
    ...splitSamples(loadDigits(), TRAIN_SHARE, seed),
    hiddenUnits: [128, 64],
    classes: 10,
    epochs,
    batchSize: 32,
    momentum: 0.9,
    seed,
    brokenStepsMax: BROKEN_STEPS_MAX,
  }
  const images = `${plan.train.count} images of handwritten digits, ${plan.validate.count} to validate`
  progress.say(`Training on ${images}; logging to ${url} (workspace ${workspaceName}, project ${project}).`)

  const runs: RunOutcome[] = []
  let imagesVersionId: string | undefined
  for (const learningRate of [GOOD_RATE, BAD_RATE]) {
    const run = await runExperiment({
      client,
      workspaceName,
      projectName: project,
      experimentName: `digits, learning rate ${learningRate}`,
      plan: { ...plan, learningRate },
      images: { versionId: imagesVersionId },
      tags: ['demo', 'digits', learningRate === GOOD_RATE ? 'learns' : 'too-high-a-rate'],
      onProgress: progress.update,
      signal,
    })
    runs.push(run)
    imagesVersionId = run.imagesVersionId
    const { ledger, end, steps, durationMs } = run
    progress.say(`${ledger.experimentName}: ${end} after ${steps} steps and ${(durationMs / 1000).toFixed(1)} s`)
  }

  progress.say('Reading everything back ...')
  const experiments: DemoReport['experiments'] = []
  for (const run of runs) {
    experiments.push(toExperimentReport(url, run, await readBack({ client, ledger: run.ledger, signal })))
  }
  const report: DemoReport = {
    ok: experiments.every(({ mismatches }) => mismatches.length === 0),
    url,
    workspaceName,
    projectName: project,
    epochs,
    seed,
    trainingMs: experiments.reduce((sum, { trainingMs }) => sum + trainingMs, 0),
    experiments,
  }
  return { report, runs }
}
