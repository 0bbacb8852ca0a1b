import { arch, cpus, platform } from 'node:os'
import { setImmediate as breathe, setTimeout as sleep } from 'node:timers/promises'
import { statusAnswer } from './answers.ts'
import type { Client } from './client.ts'
import type { Ledger, Point } from './ledger.ts'
import { createMachineSampler } from './machine.ts'
import { logHardImages, logImages, logNetwork, recordUse } from './media/artifacts.ts'
import { logMedia, logSound } from './media/log-media.ts'
import { countWeights, type Network, type Score, zeroNetwork } from './network.ts'
import { createRecorder, type NewExperiment, type Recorder } from './recorder.ts'
import { stepsPerEpoch, type TrainingEnd, type TrainingEvent, type TrainingPlan, train } from './trainer.ts'

// One experiment from its creation to its last point, the way a trainer logs it: keep-alive signals and samples of
// the machine go out beside the training, each step's numbers in batches, each epoch's validation on its own.

const EPOCHS_SHOWN = 5
const SAMPLES_MIN = 3
const SAMPLE_INTERVAL_MS_MAX = 500

/** The progress of a run. */
export interface RunProgress {
  name: string
  epoch: number
  epochs: number
  step: number
  steps: number
  loss: number
  accuracy: number
  /** Points the service has acknowledged so far, and since when (ms of the run). */
  acknowledged: number
  elapsedMs: number
}

export interface RunOutcome {
  ledger: Ledger
  refusals: string[]
  plan: TrainingPlan
  end: TrainingEnd | 'stopped'
  steps: number
  /** Mean of the last epoch; of the last step when no epoch was finished. */
  finalTrainLoss: number
  /** Share, 0 to 1; null when no epoch was finished. */
  bestValidateAccuracy: number | null
  /** Steps whose loss was NaN or infinite, and the first of them. */
  brokenSteps: number
  firstBrokenStep: number | null
  /** Time spent computing, without the logging. */
  trainingMs: number
  /** From the first step to the last answer. */
  durationMs: number
  acknowledged: number
  /** What it has learnt; null when no epoch was finished. */
  network: Network | null
  /** The version of the artifact that the run made last, or used. */
  imagesVersionId: string | undefined
}

export interface RunDeps extends NewExperiment {
  plan: TrainingPlan
  /**
   * The version of the artifact to train with; without one the run makes two, and registers what it has learnt. Absent: artifacts
   * are left alone.
   */
  images?: { versionId: string | undefined }
  tags: string[]
  onProgress: (progress: RunProgress) => void
  signal: AbortSignal
}

/** Trains by the plan and logs everything to a new experiment; rejects with DemoError if the service refuses it. */
export async function runExperiment({
  plan,
  tags,
  images,
  onProgress,
  signal,
  ...experiment
}: RunDeps): Promise<RunOutcome> {
  const recorder = await createRecorder(experiment)
  const { experimentKey } = recorder.ledger
  const beat = await keepAlive(experiment.client, experimentKey, signal)
  const monitor = watchMachine(recorder, Math.min(beat.cpuIntervalMs, SAMPLE_INTERVAL_MS_MAX), signal)
  try {
    await logPlan(recorder, plan)
    await recorder.tags(tags)
    const run = { client: experiment.client, experimentKey }
    const isFirst = images !== undefined && images.versionId === undefined
    let imagesVersionId = isFirst ? await logImages(run, plan) : images?.versionId
    if (!isFirst && imagesVersionId !== undefined) await recordUse(run, imagesVersionId)

    const startTimeMillis = Date.now()
    const startedAt = performance.now()
    const state = {
      end: 'stopped' as RunOutcome['end'],
      steps: 0,
      finalTrainLoss: Number.NaN,
      bestValidateAccuracy: null as number | null,
      brokenSteps: 0,
      firstBrokenStep: null as number | null,
      trainingMs: 0,
      network: null as Network | null,
    }
    const training = train(plan)
    const losses: number[] = []
    while (!beat.stopRequested()) {
      const stepStartedAt = performance.now()
      const { value, done } = training.next()
      state.trainingMs += performance.now() - stepStartedAt
      if (done) {
        state.end = value
        break
      }
      if (value.kind === 'step') {
        state.steps = value.step
        if (value.epoch === 1) state.finalTrainLoss = value.score.loss
        if (!Number.isFinite(value.score.loss)) {
          state.brokenSteps++
          if (state.firstBrokenStep === null) {
            state.firstBrokenStep = value.step
            await recorder.output(`step ${value.step}: the loss is ${value.score.loss}, no longer a number`, true)
          }
        }
        onProgress({
          name: recorder.ledger.experimentName,
          epoch: value.epoch,
          epochs: plan.epochs,
          step: value.step,
          steps: plan.epochs * stepsPerEpoch(plan),
          ...value.score,
          acknowledged: recorder.acknowledged(),
          elapsedMs: performance.now() - startedAt,
        })
      } else {
        state.finalTrainLoss = value.train.loss
        state.network = value.network
        state.bestValidateAccuracy = Math.max(state.bestValidateAccuracy ?? 0, value.validate.accuracy)
        losses.push(value.train.loss)
        if (isShown(value.epoch, plan.epochs)) {
          const { network, step, epoch } = value
          await logMedia(run, { network, validate: plan.validate, step, epoch, isLast: epoch === plan.epochs })
        }
      }
      await logEvent(recorder, value, plan.epochs)
      // Lets pending requests and timers run, or they would wait for the end of the training.
      await breathe()
      signal.throwIfAborted()
    }

    if (losses.length > 0) await logSound(run, losses, state.steps)
    if (isFirst && state.network) {
      imagesVersionId = await logHardImages(run, plan, state.network)
      await logNetwork(run, state.network, state.bestValidateAccuracy)
    }
    await recorder.other('end_reason', toEndReason(state.end, state.firstBrokenStep, state.brokenSteps))
    await recorder.other('training_ms', Math.round(state.trainingMs))
    if (state.bestValidateAccuracy !== null) await recorder.other('best_validate_accuracy', state.bestValidateAccuracy)
    await monitor.finish(SAMPLES_MIN)
    // A beat that came after the end would have it running again.
    await beat.stop()
    await recorder.end(startTimeMillis, Date.now())
    await recorder.drain()
    return {
      ledger: recorder.ledger,
      refusals: recorder.refusals,
      plan,
      ...state,
      durationMs: performance.now() - startedAt,
      acknowledged: recorder.acknowledged(),
      imagesVersionId,
    }
  } finally {
    await beat.stop()
    monitor.stop()
  }
}

/** A few epochs of all, the first and the last among them. */
function isShown(epoch: number, epochs: number): boolean {
  return epoch === epochs || (epoch - 1) % Math.max(1, Math.ceil(epochs / EPOCHS_SHOWN)) === 0
}

async function logPlan(recorder: Recorder, plan: TrainingPlan): Promise<void> {
  const sizes = [plan.train.features.length / plan.train.count, ...plan.hiddenUnits, plan.classes]
  const parameters = {
    learning_rate: plan.learningRate,
    momentum: plan.momentum,
    batch_size: plan.batchSize,
    hidden_units: plan.hiddenUnits.join(','),
    weights: countWeights(zeroNetwork(sizes)),
    epochs: plan.epochs,
    seed: plan.seed,
    optimizer: 'sgd with momentum',
    loss: 'softmax cross-entropy',
    train_images: plan.train.count,
    validate_images: plan.validate.count,
  }
  for (const [name, value] of Object.entries(parameters)) await recorder.parameter(name, value)

  await recorder.other('dataset', 'UCI Optical Recognition of Handwritten Digits (test set), CC BY 4.0')
  await recorder.other('node_version', process.version)
  await recorder.other('platform', `${platform()} ${arch()}`)
  const cores = cpus()
  if (cores[0]?.model) await recorder.other('cpu', `${cores.length} x ${cores[0].model.trim()}`)
}

async function logEvent(recorder: Recorder, event: TrainingEvent, epochs: number): Promise<void> {
  const { step, epoch } = event
  const timestamp = Date.now()
  const toPoint = (context: string, metricName: string, metricValue: number): Point => {
    return { metricName, metricValue, context, step, epoch, timestamp }
  }
  const toPoints = (context: string, prefix: string, score: Score): Point[] => {
    return [toPoint(context, `${prefix}loss`, score.loss), toPoint(context, `${prefix}accuracy`, score.accuracy)]
  }
  if (event.kind === 'step') return await recorder.points(toPoints('train', '', event.score))

  await recorder.points(toPoints('train', 'epoch_', event.train))
  for (const point of toPoints('validate', '', event.validate)) await recorder.point(point)
  const trained = `train loss ${event.train.loss.toPrecision(4)} accuracy ${event.train.accuracy.toFixed(4)}`
  const checked = `validate loss ${event.validate.loss.toPrecision(4)} accuracy ${event.validate.accuracy.toFixed(4)}`
  await recorder.output(`epoch ${epoch}/${epochs} (step ${step}): ${trained}, ${checked}`, false)
}

function toEndReason(end: RunOutcome['end'], firstBrokenStep: number | null, brokenSteps: number): string {
  if (end === 'finished') return 'all epochs done'
  if (end === 'stopped') return 'a stop was requested'
  return `diverged: the loss is not a number since step ${firstBrokenStep}, ended after ${brokenSteps} such steps`
}

interface Beat {
  cpuIntervalMs: number
  stopRequested(): boolean
  /** Waits for a beat that is under way. */
  stop(): Promise<void>
}

// Signals twice in each period that the service asks for. The first signal must succeed. A later failure is ignored: the writes
// report the same problem.
async function keepAlive(client: Client, experimentKey: string, signal: AbortSignal): Promise<Beat> {
  const status = () => client.get('write/experiment/set-status', { experimentKey }, statusAnswer)
  const first = await status()
  let stopRequested = first.stopRequested ?? false
  let underWay: Promise<void> | undefined
  async function beat() {
    try {
      stopRequested = (await status()).stopRequested ?? false
    } catch {
      // The writes report it.
    } finally {
      underWay = undefined
    }
  }
  const timer = setInterval(
    () => {
      if (!signal.aborted) underWay ??= beat()
    },
    Math.max(250, first.isAliveBeatDurationMillis / 2),
  )
  return {
    cpuIntervalMs: Math.max(100, first.cpuMonitorIntervalMillis),
    stopRequested: () => stopRequested,
    async stop() {
      clearInterval(timer)
      await underWay
    },
  }
}

interface Monitor {
  /** Takes the last sample, and more if a short run has fewer than `samplesMin`. */
  finish(samplesMin: number): Promise<void>
  stop(): void
}

function watchMachine(recorder: Recorder, intervalMs: number, signal: AbortSignal): Monitor {
  const sample = createMachineSampler()
  let samples = 0
  let sampledAt = performance.now()
  let last: Promise<void> = Promise.resolve()
  const take = () => {
    samples++
    sampledAt = performance.now()
    // The recorder throws an error of these writes to the training.
    last = Promise.all([last, recorder.machine(sample()).catch(() => {})]).then(() => {})
  }
  const timer = setInterval(take, intervalMs)
  return {
    finish: async (samplesMin) => {
      clearInterval(timer)
      do {
        // Not sooner than a tenth of a second after the last one: the cores' clocks tick in hundredths.
        await sleep(Math.max(0, 100 - (performance.now() - sampledAt)), undefined, { signal })
        take()
      } while (samples < samplesMin)
      await last
    },
    stop: () => clearInterval(timer),
  }
}
