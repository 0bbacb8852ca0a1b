export type Projection = {
  /** Three to a vector. */
  positions: Float32Array
  count: number
  dimensions: number
  /** How many vectors the directions were found from. */
  sampled: number
}

const numbersOfSampleMax = 4_000_000
const iterations = 12

/**
 * Vectors in TSV on their first three principal components, found by power iteration. The page stays alive meanwhile.
 *
 * @throws Error when the text holds no matrix of numbers
 */
export async function project(text: string): Promise<Projection> {
  const lines = text.split('\n').filter((it) => it !== '')
  const dimensions = (lines[0] ?? '').split('\t').length
  const count = lines.length
  const values = new Float32Array(count * dimensions)
  for (const [at, line] of lines.entries()) {
    const numbers = line.split('\t').map(Number)
    if (numbers.length !== dimensions || numbers.some(Number.isNaN)) {
      throw new Error(`Line ${at + 1} of the vectors holds no ${dimensions} numbers.`)
    }
    values.set(numbers, at * dimensions)
    if (at % 500 === 0) await breathe()
  }
  const means = new Float64Array(dimensions)
  for (let at = 0; at < values.length; at++) {
    const axis = at % dimensions
    means[axis] = (means[axis] as number) + (values[at] as number) / Math.max(1, count)
  }
  for (let at = 0; at < values.length; at++) values[at] = (values[at] as number) - (means[at % dimensions] as number)
  const stride = Math.max(1, Math.ceil(values.length / numbersOfSampleMax))
  const directions: Float64Array[] = []
  for (let axis = 0; axis < Math.min(3, dimensions); axis++) {
    directions.push(await findDirection(values, { count, dimensions, stride, axis }, directions))
  }
  const positions = new Float32Array(count * 3)
  for (let at = 0; at < count; at++) {
    for (const [axis, direction] of directions.entries()) {
      positions[at * 3 + axis] = multiply(values, at * dimensions, direction)
    }
  }
  return { positions, count, dimensions, sampled: Math.ceil(count / stride) }
}

type Matrix = { count: number; dimensions: number; stride: number; axis: number }

async function findDirection(
  values: Float32Array,
  { count, dimensions, stride, axis }: Matrix,
  others: Float64Array[],
) {
  // The same each time, and not at right angles to much.
  let direction = Float64Array.from({ length: dimensions }, (_, at) => Math.cos(at * (axis + 1) + axis))
  for (let turn = 0; turn < iterations; turn++) {
    const next = new Float64Array(dimensions)
    for (let at = 0; at < count; at += stride) {
      const share = multiply(values, at * dimensions, direction)
      for (let it = 0; it < dimensions; it++) {
        next[it] = (next[it] as number) + share * (values[at * dimensions + it] as number)
      }
    }
    for (const other of others) {
      const share = multiply(next, 0, other)
      for (let it = 0; it < dimensions; it++) next[it] = (next[it] as number) - share * (other[it] as number)
    }
    const length = Math.sqrt(multiply(next, 0, next))
    if (length < 1e-12) return new Float64Array(dimensions)
    direction = next.map((it) => it / length)
    await breathe()
  }
  return direction
}

function multiply(values: Float32Array | Float64Array, from: number, direction: Float64Array): number {
  let sum = 0
  for (let at = 0; at < direction.length; at++) sum += (values[from + at] as number) * (direction[at] as number)
  return sum
}

const breathe = () => new Promise((done) => setTimeout(done))
