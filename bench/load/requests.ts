import type { DataSet } from '../../test/kit/curves.ts'
import { type DialectName, dialects, type Payload } from './dialects.ts'

/**
 * The data set as finished HTTP requests, written before the clock starts. When all have been sent they are sent again
 * to further experiments: only the keys in them are overwritten, which costs the generator next to nothing.
 */
export type RequestSettings = Payload & { dialect: DialectName }

export type RequestPool = {
  count: number
  /** The request at `index`, addressed to the experiment with this key. */
  take(index: number, experimentKey: string): Buffer
  /** Which of the experiments of the data set it belongs to, from 0. */
  experimentOf(index: number): number
  pointsPerRequest: number
}

/** Stands nowhere else in a request. */
const placeholderCharacter = '~'

export function pointsInPool({ experiments, metrics, steps }: DataSet): number {
  return experiments * metrics * steps
}

export function createRequestPool(settings: RequestSettings): RequestPool {
  const { shape, data } = settings
  const dialect = dialects[settings.dialect]
  const placeholder = placeholderCharacter.repeat(dialect.keyCharacters)
  const writer = createPoolWriter(placeholder)
  const stepsPerRequest = shape.kind === 'single' ? 1 : shape.stepsPerRequest
  // As it comes from trainings that run side by side: a step (or some steps) of each experiment in turn.
  for (let firstStep = 0; firstStep < data.steps; firstStep += stepsPerRequest) {
    for (let experiment = 0; experiment < data.experiments; experiment++) {
      for (const request of dialect.toRequests(settings, { experiment, firstStep, key: placeholder })) {
        writer.add(experiment, request)
      }
    }
  }
  return { ...writer.finish(), pointsPerRequest: shape.kind === 'single' ? 1 : stepsPerRequest * data.metrics }
}

/** One large buffer instead of a million small ones. */
function createPoolWriter(placeholder: string) {
  let bytes = Buffer.allocUnsafe(16 * 1024 * 1024)
  let used = 0
  const starts: number[] = []
  const experiments: number[] = []
  /** Where keys stand, of all requests one after the other; those of a request begin at its `keyStarts`. */
  const keys: number[] = []
  const keyStarts: number[] = []
  return {
    add(experiment: number, request: string) {
      if (used + request.length > bytes.length) {
        const larger = Buffer.allocUnsafe(bytes.length * 2 + request.length)
        bytes.copy(larger, 0, 0, used)
        bytes = larger
      }
      starts.push(used)
      experiments.push(experiment)
      keyStarts.push(keys.length)
      for (let at = request.indexOf(placeholder); at >= 0; at = request.indexOf(placeholder, at + placeholder.length)) {
        keys.push(used + at)
      }
      used += bytes.write(request, used, 'latin1')
    },

    finish(): Omit<RequestPool, 'pointsPerRequest'> {
      starts.push(used)
      keyStarts.push(keys.length)
      return {
        count: experiments.length,
        take(index, experimentKey) {
          const key = Buffer.from(experimentKey, 'latin1')
          const end = keyStarts[index + 1] as number
          for (let at = keyStarts[index] as number; at < end; at++) {
            const place = keys[at] as number
            // A call of `copy` for each would cost more than eight bytes by hand.
            for (let byte = 0; byte < key.length; byte++) bytes[place + byte] = key[byte] as number
          }
          return bytes.subarray(starts[index], starts[index + 1])
        },
        experimentOf: (index) => experiments[index] as number,
      }
    },
  }
}
