import {
  backpropagate,
  createNetwork,
  descend,
  evaluate,
  type Network,
  type Samples,
  type Score,
  zeroNetwork,
} from './network.ts'
import { createRandom, shuffle } from './random.ts'

export interface TrainingPlan {
  train: Samples
  validate: Samples
  hiddenUnits: number[]
  classes: number
  epochs: number
  batchSize: number
  learningRate: number
  momentum: number
  seed: number
  /** Ends the training after this many steps whose loss was not a finite number. */
  brokenStepsMax: number
}

export type TrainingEvent =
  | { kind: 'step'; step: number; epoch: number; score: Score }
  /** `network` is trained further by the next steps. */
  | { kind: 'epoch'; step: number; epoch: number; train: Score; validate: Score; network: Network }

/** How a training ended: all epochs done, or the loss was no longer a number. */
export type TrainingEnd = 'finished' | 'diverged'

/** Mini-batches in one epoch; the last one may be smaller. */
export function stepsPerEpoch(plan: Pick<TrainingPlan, 'train' | 'batchSize'>): number {
  return Math.ceil(plan.train.count / plan.batchSize)
}

/**
 * Trains a new network and yields after every step and every epoch; both count from 1. The train score of an epoch is
 * the mean of its steps, the validate score is taken at its end. The same plan yields the same numbers.
 */
export function* train(plan: TrainingPlan): Generator<TrainingEvent, TrainingEnd> {
  const random = createRandom(plan.seed)
  const sizes = [plan.train.features.length / plan.train.count, ...plan.hiddenUnits, plan.classes]
  const network = createNetwork(sizes, random)
  const velocity = zeroNetwork(sizes)
  const gradient = zeroNetwork(sizes)
  const order = Uint32Array.from({ length: plan.train.count }, (_, sample) => sample)
  let step = 0
  let brokenSteps = 0

  for (let epoch = 1; epoch <= plan.epochs; epoch++) {
    shuffle(order, random)
    let lossSum = 0
    let rightSum = 0
    for (let start = 0; start < order.length; start += plan.batchSize) {
      const batch = order.subarray(start, start + plan.batchSize)
      const score = backpropagate(network, plan.train, batch, gradient)
      descend(network, velocity, gradient, plan.learningRate, plan.momentum)
      lossSum += score.loss * batch.length
      rightSum += score.accuracy * batch.length
      step++
      yield { kind: 'step', step, epoch, score }
      if (!Number.isFinite(score.loss)) brokenSteps++
      if (brokenSteps >= plan.brokenStepsMax) return 'diverged'
    }
    const trained = { loss: lossSum / order.length, accuracy: rightSum / order.length }
    yield { kind: 'epoch', step, epoch, train: trained, validate: evaluate(network, plan.validate), network }
  }
  return brokenSteps > 0 ? 'diverged' : 'finished'
}
