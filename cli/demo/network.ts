import { gaussian, type Random } from './random.ts'

// A fully connected network: leaky ReLU between the layers, softmax with cross-entropy at the end, all numbers 64-bit
// floats. Nothing here clips, rescales or repairs a number: with a rate that is too high the weights really
// overflow, and the loss really becomes Infinity and NaN.

// The slope below zero keeps every unit alive, or else a high rate would kill all units and the loss would
// stand still at ln(10) instead of showing what went wrong.
const LEAK = 0.01

interface Layer {
  inputs: number
  outputs: number
  /** outputs x inputs, row by row. */
  weights: Float64Array
  /** outputs. */
  biases: Float64Array
}

/** The layers from the pixels to the ten classes. Gradients and momentum have the same shape. */
export type Network = Layer[]

export interface Samples {
  /** count x features, row by row. */
  features: Float64Array
  /** count class numbers, from 0. */
  labels: Uint8Array
  count: number
}

export interface Score {
  /** Mean cross-entropy in nats; not finite when the network is not. */
  loss: number
  /** Share of right answers, 0 to 1; an answer that is NaN is a wrong one. */
  accuracy: number
}

/** A network with layers of the given sizes (features, hidden units..., classes), He-initialized. */
export function createNetwork(sizes: number[], random: Random): Network {
  return zeroNetwork(sizes).map((layer) => {
    const spread = Math.sqrt(2 / layer.inputs)
    return { ...layer, weights: layer.weights.map(() => spread * gaussian(random)) }
  })
}

/** The same shape as `createNetwork`, filled with zeros: the start of a gradient or of the momentum. */
export function zeroNetwork(sizes: number[]): Network {
  const network: Network = []
  for (let index = 1; index < sizes.length; index++) {
    const inputs = sizes[index - 1] as number
    const outputs = sizes[index] as number
    network.push({ inputs, outputs, weights: new Float64Array(inputs * outputs), biases: new Float64Array(outputs) })
  }
  return network
}

/** How many numbers the network learns. */
export function countWeights(network: Network): number {
  return network.reduce((sum, layer) => sum + layer.weights.length + layer.biases.length, 0)
}

/** Loss and accuracy over all samples. */
export function evaluate(network: Network, samples: Samples): Score {
  const activations = createActivations(network)
  let loss = 0
  let right = 0
  for (let sample = 0; sample < samples.count; sample++) {
    const label = samples.labels[sample] as number
    loss += forward(network, samples, sample, activations)
    if (bestClass(activations) === label) right++
  }
  return { loss: loss / samples.count, accuracy: right / samples.count }
}

/** The class of one image (64 features), and the probability that the network gives it. */
export function classify(network: Network, image: Float64Array): { label: number; probability: number } {
  const activations = createActivations(network)
  forward(network, { features: image, labels: Uint8Array.of(0), count: 1 }, 0, activations)
  const label = bestClass(activations)
  return { label, probability: activations.at(-1)?.[label] ?? Number.NaN }
}

/**
 * Loss and accuracy over a mini-batch (sample numbers), and the gradient of that mean loss by every weight,
 * which overwrites `gradient`.
 */
export function backpropagate(network: Network, samples: Samples, batch: Uint32Array, gradient: Network): Score {
  const activations = createActivations(network)
  const deltas = network.map((layer) => new Float64Array(layer.outputs))
  for (const layer of gradient) {
    layer.weights.fill(0)
    layer.biases.fill(0)
  }
  let loss = 0
  let right = 0
  for (const sample of batch) {
    const label = samples.labels[sample] as number
    loss += forward(network, samples, sample, activations)
    if (bestClass(activations) === label) right++

    // Softmax with cross-entropy: the gradient by the logits is the probabilities minus the one-hot label.
    const probabilities = activations.at(-1) as Float64Array
    const outer = deltas.at(-1) as Float64Array
    for (let unit = 0; unit < outer.length; unit++) {
      outer[unit] = ((probabilities[unit] as number) - (unit === label ? 1 : 0)) / batch.length
    }
    for (let index = network.length - 1; index >= 0; index--) {
      const inputs = activations[index] as Float64Array
      addOuterProduct(gradient[index] as Layer, deltas[index] as Float64Array, inputs)
      if (index > 0) backward(network[index] as Layer, deltas[index] as Float64Array, inputs, deltas[index - 1])
    }
  }
  return { loss: loss / batch.length, accuracy: right / batch.length }
}

/** One step of descent with momentum: velocity = momentum * velocity - rate * gradient; weights += velocity. */
export function descend(network: Network, velocity: Network, gradient: Network, rate: number, momentum: number): void {
  for (const [index, layer] of network.entries()) {
    const speed = velocity[index] as Layer
    const slope = gradient[index] as Layer
    descendArray(layer.weights, speed.weights, slope.weights, rate, momentum)
    descendArray(layer.biases, speed.biases, slope.biases, rate, momentum)
  }
}

function descendArray(
  weights: Float64Array,
  speed: Float64Array,
  slope: Float64Array,
  rate: number,
  momentum: number,
): void {
  for (let at = 0; at < weights.length; at++) {
    const step = momentum * (speed[at] as number) - rate * (slope[at] as number)
    speed[at] = step
    weights[at] = (weights[at] as number) + step
  }
}

/** What a network makes of samples: the probability of each class, and what the last hidden layer puts out. */
export interface Prediction {
  /** count x classes, row by row. */
  probabilities: Float64Array
  /** count x units, row by row. */
  hidden: Float64Array
}

export function predict(network: Network, samples: Samples): Prediction {
  const activations = createActivations(network)
  const [hiddenUnits, classes] = [activations.at(-2)?.length ?? 0, activations.at(-1)?.length ?? 0]
  const probabilities = new Float64Array(samples.count * classes)
  const hidden = new Float64Array(samples.count * hiddenUnits)
  for (let sample = 0; sample < samples.count; sample++) {
    forward(network, samples, sample, activations)
    probabilities.set(activations.at(-1) as Float64Array, sample * classes)
    hidden.set(activations.at(-2) as Float64Array, sample * hiddenUnits)
  }
  return { probabilities, hidden }
}

// The features, then each layer's outputs; the last ones end as probabilities.
function createActivations(network: Network): Float64Array[] {
  return [new Float64Array(network[0]?.inputs ?? 0), ...network.map((layer) => new Float64Array(layer.outputs))]
}

// Fills the activations for one sample and returns its cross-entropy.
function forward(network: Network, samples: Samples, sample: number, activations: Float64Array[]): number {
  const features = activations[0] as Float64Array
  const start = sample * features.length
  for (let at = 0; at < features.length; at++) features[at] = samples.features[start + at] as number

  for (const [index, layer] of network.entries()) {
    const inputs = activations[index] as Float64Array
    const outputs = activations[index + 1] as Float64Array
    const hidden = index < network.length - 1
    for (let unit = 0; unit < layer.outputs; unit++) {
      const row = unit * layer.inputs
      let sum = layer.biases[unit] as number
      for (let at = 0; at < layer.inputs; at++) sum += (layer.weights[row + at] as number) * (inputs[at] as number)
      outputs[unit] = hidden && sum < 0 ? LEAK * sum : sum
    }
  }
  return softmax(activations.at(-1) as Float64Array, samples.labels[sample] as number)
}

// Logits become probabilities in place; returns -ln(probability of the label), computed from the logits, so that
// it stays exact where the probability itself would round to zero.
function softmax(logits: Float64Array, label: number): number {
  let top = -Infinity
  for (const logit of logits) if (logit > top) top = logit
  const distance = top - (logits[label] as number)
  let sum = 0
  for (let unit = 0; unit < logits.length; unit++) {
    const share = Math.exp((logits[unit] as number) - top)
    logits[unit] = share
    sum += share
  }
  for (let unit = 0; unit < logits.length; unit++) logits[unit] = (logits[unit] as number) / sum
  return Math.log(sum) + distance
}

function bestClass(activations: Float64Array[]): number {
  const probabilities = activations.at(-1) as Float64Array
  let best = -1
  let top = -Infinity
  for (let unit = 0; unit < probabilities.length; unit++) {
    const probability = probabilities[unit] as number
    if (probability > top) {
      top = probability
      best = unit
    }
  }
  return best
}

function addOuterProduct(gradient: Layer, delta: Float64Array, inputs: Float64Array): void {
  for (let unit = 0; unit < gradient.outputs; unit++) {
    const slope = delta[unit] as number
    const row = unit * gradient.inputs
    gradient.biases[unit] = (gradient.biases[unit] as number) + slope
    for (let at = 0; at < gradient.inputs; at++) {
      gradient.weights[row + at] = (gradient.weights[row + at] as number) + slope * (inputs[at] as number)
    }
  }
}

// The gradient by a layer's inputs, through the leaky ReLU that made them; overwrites `into`.
function backward(layer: Layer, delta: Float64Array, inputs: Float64Array, into: Float64Array | undefined): void {
  if (!into) return
  into.fill(0)
  for (let unit = 0; unit < layer.outputs; unit++) {
    const slope = delta[unit] as number
    const row = unit * layer.inputs
    for (let at = 0; at < layer.inputs; at++) {
      into[at] = (into[at] as number) + slope * (layer.weights[row + at] as number)
    }
  }
  for (let at = 0; at < layer.inputs; at++) if ((inputs[at] as number) < 0) into[at] = LEAK * (into[at] as number)
}
