import { expect, test } from 'vitest'
import {
  backpropagate,
  createNetwork,
  descend,
  evaluate,
  type Network,
  type Samples,
  zeroNetwork,
} from '../../../cli/demo/network.ts'
import { createRandom, gaussian } from '../../../cli/demo/random.ts'

const SIZES = [5, 7, 6, 3]

function someSamples(count: number): Samples {
  const random = createRandom(3)
  return {
    features: Float64Array.from({ length: count * 5 }, () => gaussian(random)),
    labels: Uint8Array.from({ length: count }, (_, sample) => sample % 3),
    count,
  }
}

function arraysOf(network: Network): Float64Array[] {
  return network.flatMap((layer) => [layer.weights, layer.biases])
}

test('the gradient of every weight agrees with finite differences of the loss', () => {
  const network = createNetwork(SIZES, createRandom(1))
  const samples = someSamples(9)
  const gradient = zeroNetwork(SIZES)
  backpropagate(
    network,
    samples,
    Uint32Array.from({ length: 9 }, (_, sample) => sample),
    gradient,
  )

  const nudge = 1e-6
  let compared = 0
  for (const [index, weights] of arraysOf(network).entries()) {
    const slopes = arraysOf(gradient)[index] as Float64Array
    for (let at = 0; at < weights.length; at++) {
      const kept = weights[at] as number
      weights[at] = kept + nudge
      const above = evaluate(network, samples).loss
      weights[at] = kept - nudge
      const below = evaluate(network, samples).loss
      weights[at] = kept
      expect(Math.abs((above - below) / (2 * nudge) - (slopes[at] as number))).toBeLessThan(1e-8)
      compared++
    }
  }
  expect(compared).toBe(5 * 7 + 7 + 7 * 6 + 6 + 6 * 3 + 3)
})

test('a batch scores the same as the evaluation of its samples', () => {
  const network = createNetwork(SIZES, createRandom(1))
  const samples = someSamples(9)
  const batch = Uint32Array.from({ length: 9 }, (_, sample) => sample)
  expect(backpropagate(network, samples, batch, zeroNetwork(SIZES))).toEqual(evaluate(network, samples))
})

test('a network of zeros gives each class the same chance', () => {
  const { loss, accuracy } = evaluate(zeroNetwork(SIZES), someSamples(9))
  expect(loss).toBeCloseTo(Math.log(3), 12)
  expect(accuracy).toBeCloseTo(1 / 3, 12)
})

test('descent moves by the momentum of the steps before and the rate times the gradient', () => {
  const [network, velocity, gradient] = [zeroNetwork([1, 1]), zeroNetwork([1, 1]), zeroNetwork([1, 1])]
  gradient[0]?.weights.set([2])
  descend(network, velocity, gradient, 0.1, 0.5)
  expect(network[0]?.weights[0]).toBeCloseTo(-0.2, 12)
  descend(network, velocity, gradient, 0.1, 0.5)
  expect(network[0]?.weights[0]).toBeCloseTo(-0.5, 12)
  expect(network[0]?.biases[0]).toBe(0)
})

test('an overflown network has a loss that is not a number, and no right answer', () => {
  const network = createNetwork(SIZES, createRandom(1))
  for (const weights of arraysOf(network))
    for (let at = 0; at < weights.length; at++) weights[at] = 1e200 * (at % 2 ? 1 : -1)
  const { loss, accuracy } = evaluate(network, someSamples(9))
  expect(Number.isFinite(loss)).toBe(false)
  expect(accuracy).toBe(0)
})
