import { isStorable } from '../../http/body/fields.ts'

/**
 * What a feature, a part of a prediction or a label is; null is a value that is missing. JSON cannot tell 1.0 from 1, and a
 * file can: there a float that happens to be whole is a `WholeFloat`.
 */
export type Scalar = number | bigint | string | boolean | null | WholeFloat
type WholeFloat = { float: number }
export type Scalars = Record<string, Scalar>

/** One item of a batch, or one line of a file, as it was sent; what is wrong with it was told. */
export type Item = {
  workspaceName: string
  modelName: string
  /** Empty where there is none. */
  modelVersion: string
  predictionId: string
  /** Absent: when it was received. */
  timestampMs: number | undefined
  features: Scalars | undefined
  prediction: Scalars | undefined
  labels: Scalars | undefined
  /** False for labels that come by themselves. */
  isEvent: boolean
}

/** What is wrong with a field of an item, and what to do about it. */
export type FieldFault = { field: string; msg: string }

const nameCharactersMax = 1_000
/** Models, versions and prediction ids. */
const idCharactersMax = 1_000
const textCharactersMax = 65_536
export const scalarsMax = 65_536
/** Enough to see what is wrong with an item; it may have tens of thousands of features. */
const faultsPerItemMax = 20

/** Times before are seconds that were sent as milliseconds (until the year 5138), times after micro- or nanoseconds. */
const timestampMsMin = 1e11
const timestampMsMax = 1e14

/** The key under which a scalar stands that was sent in place of an object. */
const onlyScalar = 'value'
const probabilityName = 'probability'

/**
 * Checks an item as clients send it. This is all the checking there is: at a million events a schema that takes each value
 * apart would cost as much as all the rest.
 *
 * @param labelsOnly for the call that takes nothing but labels
 * @returns undefined when something is wrong, which was added to `faults`
 */
export function readItem(raw: unknown, labelsOnly: boolean, faults: FieldFault[]): Item | undefined {
  const faultsBefore = faults.length
  const tell = (field: string, msg: string) => {
    if (faults.length - faultsBefore < faultsPerItemMax) faults.push({ field, msg })
  }
  if (!isObject(raw)) {
    tell('', 'expected an object')
    return undefined
  }
  const workspaceName = readName(raw.workspaceName, 'workspaceName', tell)
  const modelName = readName(raw.modelName, 'modelName', tell)
  const predictionId = readName(raw.predictionId, 'predictionId', tell)
  const modelVersion = raw.modelVersion == null ? '' : readText(raw.modelVersion, 'modelVersion', tell)
  const timestampMs = raw.timestamp == null ? undefined : readTimestamp(raw.timestamp, tell)
  const features = readScalars(raw.features, 'features', false, tell)
  const predictionField = raw.prediction == null && raw.predictions != null ? 'predictions' : 'prediction'
  const prediction = readScalars(raw[predictionField], predictionField, true, tell)
  const labelsField = raw.labels == null && raw.value != null ? 'value' : 'labels'
  const givenLabels = readScalars(raw[labelsField], labelsField, true, tell)
  // Or else an event that says it has none would keep those that come later out.
  const labels = hasValue(givenLabels) ? givenLabels : undefined
  const isEvent = !labelsOnly && (features !== undefined || prediction !== undefined || givenLabels === undefined)
  checkProbability(prediction, predictionField, tell)
  if (labelsOnly) {
    if (givenLabels === undefined && faults.length === faultsBefore)
      tell('labels', 'is missing (an object of names and values)')
    if (features || prediction) {
      tell(features ? 'features' : predictionField, 'is no label: send events to /mpm/v2/events/batch')
    }
  }
  if (!isEvent && givenLabels && !labels) tell(labelsField, 'has no value: labels that are missing need not be sent')
  if (faults.length > faultsBefore) return undefined
  return { workspaceName, modelName, modelVersion, predictionId, timestampMs, features, prediction, labels, isEvent }
}

export type Tell = (field: string, msg: string) => void

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function readName(value: unknown, field: string, tell: Tell): string {
  if (value == null || value === '') tell(field, value === '' ? 'must not be empty' : 'is missing')
  else return readText(value, field, tell)
  return ''
}

/** Versions and ids are often numbers, and are kept as text. */
export function readText(value: unknown, field: string, tell: Tell): string {
  const text = typeof value === 'number' || typeof value === 'bigint' ? String(value) : value
  if (typeof text !== 'string') tell(field, 'expected a string')
  else if (text.length > idCharactersMax) tell(field, `must have ${idCharactersMax} characters or fewer`)
  else if (!isStorable(text)) tell(field, 'must not hold NUL or half of a surrogate pair')
  else return text
  return ''
}

/** Milliseconds since the Unix epoch, also as digits in a string. */
export function readTimestamp(value: unknown, tell: Tell): number | undefined {
  const number = typeof value === 'string' && /^\s*-?\d+(\.0*)?\s*$/.test(value) ? Number(value) : value
  if (typeof number !== 'bigint' && !Number.isInteger(number)) {
    tell('timestamp', 'expected an integer: milliseconds since the Unix epoch')
  } else if ((number as number) < timestampMsMin) {
    tell('timestamp', `is ${describeYear(number as number)}: send milliseconds since the Unix epoch, not seconds`)
  } else if ((number as number) > timestampMsMax) {
    tell('timestamp', 'is after the year 5138: send milliseconds since the Unix epoch, not microseconds or nanoseconds')
  } else return number as number
  return undefined
}

function describeYear(timestampMs: number | bigint): string {
  const number = Number(timestampMs)
  return number < 0 ? 'before 1970' : `in the year ${new Date(number).getUTCFullYear()}`
}

/** Names with scalars; a scalar by itself, where that is taken, is `{value: scalar}`. */
function readScalars(value: unknown, field: string, takesScalar: boolean, tell: Tell): Scalars | undefined {
  if (value == null) return undefined
  if (typeof value !== 'object') {
    if (!takesScalar) return tellUndefined(tell, field, 'expected an object of names and values')
    const fault = findScalarFault(value)
    return fault === undefined ? { [onlyScalar]: value as Scalar } : tellUndefined(tell, field, fault)
  }
  if (Array.isArray(value)) return tellUndefined(tell, field, 'expected an object of names and values, not a list')
  let count = 0
  for (const name in value) {
    if (++count > scalarsMax) return tellUndefined(tell, field, `must have ${scalarsMax} values or fewer`)
    const fault = findNameFault(name) ?? findScalarFault((value as Record<string, unknown>)[name])
    if (fault !== undefined) tell(`${field}.${shortName(name)}`, fault)
  }
  return value as Scalars
}

function tellUndefined(tell: Tell, field: string, msg: string): undefined {
  tell(field, msg)
  return undefined
}

const shortName = (name: string) => (name.length > 100 ? `${name.slice(0, 100)}…` : name)

export function findNameFault(name: string): string | undefined {
  if (name === '') return 'the name must not be empty'
  if (name.length > nameCharactersMax) return `the name must have ${nameCharactersMax} characters or fewer`
  return isStorable(name) ? undefined : 'the name must not hold NUL or half of a surrogate pair'
}

/** What keeps a value from being stored as it is; undefined when nothing does. */
function findScalarFault(value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      return findTextFault(value)
    case 'number':
      return Number.isFinite(value) ? undefined : 'is beyond the range of a 64-bit float'
    case 'boolean':
      return undefined
    case 'bigint':
      return Number.isFinite(Number(value)) ? undefined : 'is beyond the range of a 64-bit float'
  }
  if (value === null) return undefined
  return `expected an integer, a float, a boolean or a string, not ${Array.isArray(value) ? 'a list' : 'an object'}`
}

export function findTextFault(value: string): string | undefined {
  if (value.length > textCharactersMax) return `must have ${textCharactersMax} characters or fewer`
  return isStorable(value) ? undefined : 'must not hold NUL or half of a surrogate pair'
}

/** True when one of them is not missing. */
export function hasValue(scalars: Scalars | undefined): boolean {
  for (const name in scalars) if (scalars[name] !== null) return true
  return false
}

/** A part of a prediction that is called `probability` is one. */
export function checkProbability(prediction: Scalars | undefined, field: string, tell: Tell) {
  if (prediction === undefined || !Object.hasOwn(prediction, probabilityName)) return
  const given = prediction[probabilityName]
  const probability = typeof given === 'object' ? given?.float : given
  if (given == null) return
  if (typeof probability !== 'number' || !(probability >= 0 && probability <= 1)) {
    tell(`${field}.${probabilityName}`, 'must be a number from 0 to 1')
  }
}
