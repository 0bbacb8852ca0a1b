import { hash } from 'node:crypto'
import { decimal, toNotFinite } from '../../../http/body/fields.ts'
import { HttpError } from '../../../http/errors.ts'
import {
  checkProbability,
  type FieldError,
  findNameError,
  findTextError,
  hasValue,
  type Item,
  type Report,
  readText,
  readTimestamp,
  type Scalar,
  type Scalars,
  scalarsMax,
} from '../event.ts'
import type { CsvRecord } from './reader.ts'

/** The strings in a file that mean a missing value. */
export type MissingMarkers = ReadonlySet<string>

const defaultMarkers = ['', 'None', 'null', 'NULL', 'N/A', 'NA', 'NaN', 'n/a', 'nan']

/**
 * @param given further strings, separated by commas
 * @param keepDefault false: only the given ones
 */
export function toMissingMarkers(given: string | undefined, keepDefault: boolean): MissingMarkers {
  return new Set([...(keepDefault ? defaultMarkers : []), ...(given === undefined ? [] : given.split(','))])
}

/** What a column holds. */
type Column =
  | { kind: 'timestamp' | 'predictionId' | 'ignored' }
  | { kind: 'features' | 'prediction' | 'labels'; name: string }

const prefixes = [
  ['feature_', 'features'],
  ['prediction_', 'prediction'],
  ['label_value_', 'labels'],
] as const

/** The columns of a file, and the names of those that are not known. */
export type Header = { columns: Column[]; ignored: string[] }

/**
 * Reads the first line of a file.
 *
 * @param needsId true for labels: without a prediction id they belong to no event
 * @throws HttpError `badRequest`
 */
export function readHeader({ fields }: CsvRecord, needsId: boolean): Header {
  if (!Array.isArray(fields)) throw refuseHeader(fields.error)
  const names = fields.map((it) => it.trim())
  if (names.length > scalarsMax) throw refuseHeader(`there are more than ${scalarsMax} columns`)
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  if (twice !== undefined) throw refuseHeader(`the column "${twice.slice(0, 100)}" appears twice`)
  const columns = names.map(toColumn)
  const kinds = new Set(columns.map((it) => it.kind))
  if (needsId && !kinds.has('predictionId')) throw refuseHeader('the column predictionId is missing')
  if (needsId && !kinds.has('labels')) throw refuseHeader('there is no column label_value_*')
  if (kinds.size === 1 && kinds.has('ignored')) {
    throw refuseHeader(
      'it has none of timestamp, predictionId, feature_*, prediction_*, label_value_*; the first line of a file must ' +
        'name its columns',
    )
  }
  return { columns, ignored: names.filter((_, at) => columns[at]?.kind === 'ignored') }
}

function toColumn(name: string): Column {
  if (name === 'timestamp' || name === 'predictionId') return { kind: name }
  for (const [prefix, kind] of prefixes) {
    if (!name.startsWith(prefix)) continue
    const error = findNameError(name.slice(prefix.length))
    if (error !== undefined) throw refuseHeader(`${name.slice(0, 100)}: ${error}`)
    return { kind, name: name.slice(prefix.length) }
  }
  return { kind: 'ignored' }
}

function refuseHeader(error: string): HttpError {
  return new HttpError('badRequest', `file: line 1 is no usable list of columns: ${error}`)
}

type Source = {
  workspaceName: string
  modelName: string
  modelVersion: string
  markers: MissingMarkers
  /** True for labels, which need a prediction id. */
  needsId: boolean
  /** Missing ids are made from this and the line, so that the same file sent again has the same ids. */
  idScope: string
}

/**
 * Reads a line as an item.
 *
 * @returns undefined for a wrong line, with the reasons added to `errors`
 */
export function readLine(
  { line, fields }: CsvRecord,
  { columns }: Header,
  source: Source,
  errors: FieldError[],
): Item | undefined {
  const errorsBefore = errors.length
  const report: Report = (field, msg) => errors.push({ field, msg })
  if (!Array.isArray(fields)) {
    report('', fields.error)
    return undefined
  }
  if (fields.length !== columns.length) {
    report('', `has ${fields.length} values, but there are ${columns.length} columns`)
    return undefined
  }
  const { markers } = source
  let timestampMs: number | undefined
  let predictionId: string | undefined
  const parts: Partial<Record<'features' | 'prediction' | 'labels', Scalars>> = {}
  for (let at = 0; at < columns.length; at++) {
    const column = columns[at] as Column
    const text = fields[at] as string
    const isMissing = markers.has(text)
    switch (column.kind) {
      case 'ignored':
        break
      case 'timestamp':
        if (!isMissing && text !== '') timestampMs = readTimestamp(text, report)
        break
      case 'predictionId':
        if (!isMissing && text !== '') predictionId = readText(text, 'predictionId', report)
        break
      default: {
        // A name may be anything, even `__proto__`.
        const scalars = parts[column.kind] ?? (Object.create(null) as Scalars)
        parts[column.kind] = scalars
        const error = isMissing ? undefined : findTextError(text)
        if (error !== undefined) report(toColumnName(column), error)
        scalars[column.name] = isMissing ? null : toScalar(text)
      }
    }
  }
  checkProbability(parts.prediction, 'prediction', (field, msg) => report(field.replace('.', '_'), msg))
  if (predictionId === undefined && source.needsId) report('predictionId', 'is missing')
  if (source.needsId && !hasValue(parts.labels)) report('', 'has no label')
  if (errors.length > errorsBefore) return undefined
  return {
    workspaceName: source.workspaceName,
    modelName: source.modelName,
    modelVersion: source.modelVersion,
    predictionId: predictionId ?? toPredictionId(source.idScope, line, fields),
    timestampMs,
    features: parts.features,
    prediction: parts.prediction,
    // No label on a line means: not labelled yet.
    labels: hasValue(parts.labels) ? parts.labels : undefined,
    isEvent: !source.needsId,
  }
}

function toColumnName(column: Column): string {
  const prefix = prefixes.find(([, kind]) => kind === column.kind)?.[0] ?? ''
  return `${prefix}${'name' in column ? column.name : ''}`.slice(0, 100)
}

/** A UUID (version 8) that is the same for the same line of the same file. */
function toPredictionId(scope: string, line: number, fields: string[]): string {
  const digest = hash('sha256', JSON.stringify([scope, line, fields]), 'hex')
  const variant = '89ab'[Number.parseInt(digest[16] as string, 16) & 3]
  return [
    digest.slice(0, 8),
    digest.slice(8, 12),
    `8${digest.slice(13, 16)}`,
    `${variant}${digest.slice(17, 20)}`,
    digest.slice(20, 32),
  ].join('-')
}

const integer = /^-?(0|[1-9]\d*)$/
const booleans: Record<string, boolean> = {
  true: true,
  True: true,
  TRUE: true,
  false: false,
  False: false,
  FALSE: false,
}
const digitsMax = 300

/**
 * A file has no types: text that reads as an integer, a float or a boolean becomes one; all other text is a string. `007`
 * stays a string, because a number would lose its zeros; 5.0 is a float.
 */
export function toScalar(text: string): Scalar {
  const first = text.charCodeAt(0)
  // Fast exit: most strings begin with a letter that no number, boolean or NaN begins with.
  if (first > 0x39 && !/^[iInNtTfF]/.test(text)) return text
  if (integer.test(text) && text !== '-0' && text.length <= digitsMax) {
    const number = Number(text)
    return Number.isSafeInteger(number) ? number : BigInt(text)
  }
  if (decimal.test(text) && !/^[+-]?0\d/.test(text)) {
    const number = Number(text)
    if (!Number.isFinite(number)) return text
    return Number.isSafeInteger(number) ? { float: number } : number
  }
  return (Object.hasOwn(booleans, text) ? booleans[text] : undefined) ?? toNotFinite(text) ?? text
}
