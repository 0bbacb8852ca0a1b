import type { DataSet } from '../../test/kit/curves.ts'
import { type DialectName, dialects, type Payload } from './dialects.ts'

/**
 * The data set as complete HTTP requests, built before the clock starts. After a full pass they are sent again to other
 * experiments: only the keys are overwritten, which costs the generator almost nothing.
 */
export type RequestSettings = Payload & { dialect: DialectName }

export type RequestPool = {
  count: number
  /** The request at `index`, addressed to the experiment with this key. */
  take(index: number, experimentKey: string): Buffer
  /** The index of its experiment in the data set. */
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
  // The order of concurrent trainings: one or more steps of each experiment in turn.
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
  /** The offsets of keys in all requests; those of a request begin at its `keyStarts`. */
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
            // Calling `copy` for each key costs more than copying its bytes in a loop.
            for (let byte = 0; byte < key.length; byte++) bytes[place + byte] = key[byte] as number
          }
          return bytes.subarray(starts[index], starts[index + 1])
        },
        experimentOf: (index) => experiments[index] as number,
      }
    },
  }
}
