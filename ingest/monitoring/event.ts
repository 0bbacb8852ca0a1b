import { BareFloat } from '../../http/body/exact-json.ts'
import { isStorable } from '../../http/body/fields.ts'

/**
 * The value of a feature, a part of a prediction or a label; null means missing. JSON cannot tell 1.0 from 1, but a file
 * can: a whole number written as a float in a file is a `WholeFloat`. So are NaN and the infinities, which JSON has no number
 * for.
 */
export type Scalar = number | bigint | string | boolean | null | WholeFloat
type WholeFloat = { float: number }
export type Scalars = Record<string, Scalar>

/** One item of a batch, or one line of a file, checked. */
export type Item = {
  workspaceName: string
  modelName: string
  /** Empty when absent. */
  modelVersion: string
  predictionId: string
  /** Undefined: the time of receipt. */
  timestampMs: number | undefined
  features: Scalars | undefined
  prediction: Scalars | undefined
  labels: Scalars | undefined
  /** False for labels sent without an event. */
  isEvent: boolean
}

/** A field of an item that is wrong, and what to do about it. */
export type FieldError = { field: string; msg: string }

const nameCharactersMax = 1_000
/** Models, versions and prediction ids. */
const idCharactersMax = 1_000
const textCharactersMax = 65_536
export const scalarsMax = 65_536
/** An item may have tens of thousands of features: more errors than this are not reported. */
const errorsPerItemMax = 20

/** Smaller times are taken for seconds (until the year 5138), larger ones for micro- or nanoseconds. */
const timestampMsMin = 1e11
const timestampMsMax = 1e14

/** The name of a scalar that was sent in place of an object. */
const onlyScalar = 'value'
const probabilityName = 'probability'

/**
 * Checks an item. There is no schema behind this check: for a million events it would cost as much as all the rest.
 *
 * @param labelsOnly true for the route that takes only labels
 * @returns undefined for a wrong item, with the reasons added to `errors`
 */
export function readItem(raw: unknown, labelsOnly: boolean, errors: FieldError[]): Item | undefined {
  const errorsBefore = errors.length
  const report = (field: string, msg: string) => {
    if (errors.length - errorsBefore < errorsPerItemMax) errors.push({ field, msg })
  }
  if (!isObject(raw)) {
    report('', 'expected an object')
    return undefined
  }
  const workspaceName = readName(raw.workspaceName, 'workspaceName', report)
  const modelName = readName(raw.modelName, 'modelName', report)
  const predictionId = readName(raw.predictionId, 'predictionId', report)
  const modelVersion = raw.modelVersion == null ? '' : readText(raw.modelVersion, 'modelVersion', report)
  const timestampMs = raw.timestamp == null ? undefined : readTimestamp(raw.timestamp, report)
  const features = readScalars(raw.features, 'features', false, report)
  const predictionField = raw.prediction == null && raw.predictions != null ? 'predictions' : 'prediction'
  const prediction = readScalars(raw[predictionField], predictionField, true, report)
  const labelsField = raw.labels == null && raw.value != null ? 'value' : 'labels'
  const givenLabels = readScalars(raw[labelsField], labelsField, true, report)
  // Empty labels are dropped, or else they would count as the first, and the real ones as duplicates.
  const labels = hasValue(givenLabels) ? givenLabels : undefined
  const isEvent = !labelsOnly && (features !== undefined || prediction !== undefined || givenLabels === undefined)
  checkProbability(prediction, predictionField, report)
  if (labelsOnly) {
    if (givenLabels === undefined && errors.length === errorsBefore)
      report('labels', 'is missing (an object of names and values)')
    if (features || prediction) {
      report(features ? 'features' : predictionField, 'is not a label: send events to /mpm/v2/events/batch')
    }
  }
  if (!isEvent && givenLabels && !labels) report(labelsField, 'has no value: leave out labels that are missing')
  if (errors.length > errorsBefore) return undefined
  return { workspaceName, modelName, modelVersion, predictionId, timestampMs, features, prediction, labels, isEvent }
}

export type Report = (field: string, msg: string) => void

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function readName(value: unknown, field: string, report: Report): string {
  if (value == null || value === '') report(field, value === '' ? 'must not be empty' : 'is missing')
  else return readText(value, field, report)
  return ''
}

/** Versions and ids are often numbers, and are kept as text. */
export function readText(value: unknown, field: string, report: Report): string {
  const text = typeof value === 'number' || typeof value === 'bigint' ? String(value) : value
  if (typeof text !== 'string') report(field, 'expected a string')
  else if (text.length > idCharactersMax) report(field, `must have ${idCharactersMax} characters or fewer`)
  else if (!isStorable(text)) report(field, 'must not hold NUL or half of a surrogate pair')
  else return text
  return ''
}

/** Milliseconds since the Unix epoch, also as digits in a string. */
export function readTimestamp(value: unknown, report: Report): number | undefined {
  const number = typeof value === 'string' && /^\s*-?\d+(\.0*)?\s*$/.test(value) ? Number(value) : value
  if (typeof number !== 'bigint' && !Number.isInteger(number)) {
    report('timestamp', 'expected an integer: milliseconds since the Unix epoch')
  } else if ((number as number) < timestampMsMin) {
    report('timestamp', `is ${describeYear(number as number)}: send milliseconds since the Unix epoch, not seconds`)
  } else if ((number as number) > timestampMsMax) {
    report(
      'timestamp',
      'is after the year 5138: send milliseconds since the Unix epoch, not microseconds or nanoseconds',
    )
  } else return number as number
  return undefined
}

function describeYear(timestampMs: number | bigint): string {
  const number = Number(timestampMs)
  return number < 0 ? 'before 1970' : `in the year ${new Date(number).getUTCFullYear()}`
}

/** Names with scalars. If `takesScalar`, a scalar by itself is read as `{value: scalar}`. */
function readScalars(value: unknown, field: string, takesScalar: boolean, report: Report): Scalars | undefined {
  if (value == null) return undefined
  if (typeof value !== 'object' || value instanceof BareFloat) {
    if (!takesScalar) return reject(report, field, 'expected an object of names and values')
    const error = findScalarError(value)
    return error === undefined ? { [onlyScalar]: value as Scalar } : reject(report, field, error)
  }
  if (Array.isArray(value)) return reject(report, field, 'expected an object of names and values, not a list')
  let count = 0
  for (const name in value) {
    if (++count > scalarsMax) return reject(report, field, `must have ${scalarsMax} values or fewer`)
    const error = findNameError(name) ?? findScalarError((value as Record<string, unknown>)[name])
    if (error !== undefined) report(`${field}.${shortName(name)}`, error)
  }
  return value as Scalars
}

function reject(report: Report, field: string, msg: string): undefined {
  report(field, msg)
  return undefined
}

const shortName = (name: string) => (name.length > 100 ? `${name.slice(0, 100)}…` : name)

export function findNameError(name: string): string | undefined {
  if (name === '') return 'the name must not be empty'
  if (name.length > nameCharactersMax) return `the name must have ${nameCharactersMax} characters or fewer`
  return isStorable(name) ? undefined : 'the name must not hold NUL or half of a surrogate pair'
}

/** Why a value cannot be stored as it is; undefined if it can. */
function findScalarError(value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      return findTextError(value)
    case 'number':
      return Number.isFinite(value) ? undefined : 'is beyond the range of a 64-bit float'
    case 'boolean':
      return undefined
    case 'bigint':
      return Number.isFinite(Number(value)) ? undefined : 'is beyond the range of a 64-bit float'
  }
  if (value === null || value instanceof BareFloat) return undefined
  return `expected an integer, a float, a boolean or a string, not ${Array.isArray(value) ? 'a list' : 'an object'}`
}

export function findTextError(value: string): string | undefined {
  if (value.length > textCharactersMax) return `must have ${textCharactersMax} characters or fewer`
  return isStorable(value) ? undefined : 'must not hold NUL or half of a surrogate pair'
}

/** True if at least one value is not missing. */
export function hasValue(scalars: Scalars | undefined): boolean {
  for (const name in scalars) if (scalars[name] !== null) return true
  return false
}

/** Checks that a value named `probability` is from 0 to 1. */
export function checkProbability(prediction: Scalars | undefined, field: string, report: Report) {
  if (prediction === undefined || !Object.hasOwn(prediction, probabilityName)) return
  const given = prediction[probabilityName]
  const probability = typeof given === 'object' ? given?.float : given
  if (given == null) return
  if (typeof probability !== 'number' || !(probability >= 0 && probability <= 1)) {
    report(`${field}.${probabilityName}`, 'must be a number from 0 to 1')
  }
}
