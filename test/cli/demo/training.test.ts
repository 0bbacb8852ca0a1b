import { expect, test } from 'vitest'
import { loadDigits, splitSamples } from '../../../cli/demo/digits.ts'
import { stepsPerEpoch, type TrainingEvent, type TrainingPlan, train } from '../../../cli/demo/trainer.ts'

const digits = splitSamples(loadDigits(), 0.8, 7)

function aPlan(overrides: Partial<TrainingPlan> = {}): TrainingPlan {
  return {
    ...digits,
    hiddenUnits: [32],
    classes: 10,
    epochs: 3,
    batchSize: 32,
    learningRate: 0.05,
    momentum: 0.9,
    seed: 7,
    brokenStepsMax: 20,
    ...overrides,
  }
}

function runToEnd(plan: TrainingPlan) {
  const events: TrainingEvent[] = []
  const training = train(plan)
  for (;;) {
    const { value, done } = training.next()
    if (done) return { events, end: value }
    events.push(value)
  }
}

function lossesOf(plan: TrainingPlan): number[] {
  return runToEnd(plan).events.flatMap((event) => (event.kind === 'step' ? [event.score.loss] : []))
}

test('a few epochs learn more than nine of ten digits never seen in training', () => {
  const { events, end } = runToEnd(aPlan({ epochs: 8 }))
  const epochs = events.filter((event) => event.kind === 'epoch')
  expect(end).toBe('finished')
  expect(epochs.map(({ epoch }) => epoch)).toEqual([1, 2, 3, 4, 5, 6, 7, 8])
  expect(epochs.at(-1)?.validate.accuracy).toBeGreaterThan(0.9)
  expect(epochs.at(-1)?.train.loss).toBeLessThan(0.2)
})

test('steps count from 1 through all epochs', () => {
  const plan = aPlan()
  const steps = runToEnd(plan).events.flatMap((event) => (event.kind === 'step' ? [event.step] : []))
  expect(stepsPerEpoch(plan)).toBe(45)
  expect(steps).toEqual(Array.from({ length: 135 }, (_, index) => index + 1))
})

test('the same seed trains with the same losses, bit for bit, and another seed does not', () => {
  expect(lossesOf(aPlan())).toEqual(lossesOf(aPlan()))
  expect(lossesOf(aPlan({ seed: 8 }))).not.toEqual(lossesOf(aPlan()))
})

test('the high rate of the demo overflows within an epoch, stays broken, and ends the training', () => {
  for (const seed of [7, 8, 9]) {
    const plan = aPlan({ hiddenUnits: [128, 64], learningRate: 1, seed })
    const losses = lossesOf(plan)
    const first = losses.findIndex((loss) => !Number.isFinite(loss))
    expect(first).toBeGreaterThan(5)
    expect(first).toBeLessThan(45)
    expect(losses.slice(first + 1).every(Number.isNaN)).toBe(true)
    expect(losses.length).toBe(first + 20)
    expect(runToEnd(plan).end).toBe('diverged')
  }
})
