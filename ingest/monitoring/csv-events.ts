import { hash } from 'node:crypto'
import { decimal, toNotFinite } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import type { CsvRecord } from './csv.ts'
import {
  checkProbability,
  type FieldFault,
  findNameFault,
  findTextFault,
  hasValue,
  type Item,
  readText,
  readTimestamp,
  type Scalar,
  type Scalars,
  scalarsMax,
  type Tell,
} from './event.ts'

/** What strings in a file mean a value that is missing. */
export type MissingMarkers = ReadonlySet<string>

const defaultMarkers = ['', 'None', 'null', 'NULL', 'N/A', 'NA', 'NaN', 'n/a', 'nan']

/**
 * @param given further strings, with commas between them, as they stand in the file
 * @param keepDefault false: only those that are given
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

/** The columns of a file, and the names of those that hold nothing that is known. */
export type Header = { columns: Column[]; ignored: string[] }

/**
 * Reads the first line of a file.
 *
 * @param needsId for labels: without an id they belong to nothing
 * @throws HttpError `badRequest`
 */
export function readHeader({ fields }: CsvRecord, needsId: boolean): Header {
  if (!Array.isArray(fields)) throw refuseHeader(fields.fault)
  const names = fields.map((it) => it.trim())
  if (names.length > scalarsMax) throw refuseHeader(`there are more than ${scalarsMax} columns`)
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  if (twice !== undefined) throw refuseHeader(`the column "${twice.slice(0, 100)}" stands there twice`)
  const columns = names.map(toColumn)
  const kinds = new Set(columns.map((it) => it.kind))
  if (needsId && !kinds.has('predictionId')) throw refuseHeader('the column predictionId is missing')
  if (needsId && !kinds.has('labels')) throw refuseHeader('there is no column label_value_*')
  if (kinds.size === 1 && kinds.has('ignored')) {
    throw refuseHeader(
      'there is none of the columns timestamp, predictionId, feature_*, prediction_*, label_value_*; the first line of a ' +
        'file names its columns',
    )
  }
  return { columns, ignored: names.filter((_, at) => columns[at]?.kind === 'ignored') }
}

function toColumn(name: string): Column {
  if (name === 'timestamp' || name === 'predictionId') return { kind: name }
  for (const [prefix, kind] of prefixes) {
    if (!name.startsWith(prefix)) continue
    const fault = findNameFault(name.slice(prefix.length))
    if (fault !== undefined) throw refuseHeader(`${name.slice(0, 100)}: ${fault}`)
    return { kind, name: name.slice(prefix.length) }
  }
  return { kind: 'ignored' }
}

function refuseHeader(fault: string): HttpError {
  return new HttpError('badRequest', `file: line 1 names no columns that can be used: ${fault}`)
}

type Source = {
  workspaceName: string
  modelName: string
  modelVersion: string
  markers: MissingMarkers
  /** Labels have to come with an id. */
  needsId: boolean
  /** What ids are made from that are missing, besides the line: the same file sent again makes the same ones. */
  idScope: string
}

/**
 * Makes an item of a line.
 *
 * @returns undefined when something is wrong, which was added to `faults`
 */
export function readLine(
  { line, fields }: CsvRecord,
  { columns }: Header,
  source: Source,
  faults: FieldFault[],
): Item | undefined {
  const faultsBefore = faults.length
  const tell: Tell = (field, msg) => faults.push({ field, msg })
  if (!Array.isArray(fields)) {
    tell('', fields.fault)
    return undefined
  }
  if (fields.length !== columns.length) {
    tell('', `has ${fields.length} values, but there are ${columns.length} columns`)
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
        if (!isMissing && text !== '') timestampMs = readTimestamp(text, tell)
        break
      case 'predictionId':
        if (!isMissing && text !== '') predictionId = readText(text, 'predictionId', tell)
        break
      default: {
        // Names may be anything, `__proto__` as well.
        const scalars = parts[column.kind] ?? (Object.create(null) as Scalars)
        parts[column.kind] = scalars
        const fault = isMissing ? undefined : findTextFault(text)
        if (fault !== undefined) tell(toColumnName(column), fault)
        scalars[column.name] = isMissing ? null : toScalar(text)
      }
    }
  }
  checkProbability(parts.prediction, 'prediction', (field, msg) => tell(field.replace('.', '_'), msg))
  if (predictionId === undefined && source.needsId) tell('predictionId', 'is missing')
  if (source.needsId && !hasValue(parts.labels)) tell('', 'has no label')
  if (faults.length > faultsBefore) return undefined
  return {
    workspaceName: source.workspaceName,
    modelName: source.modelName,
    modelVersion: source.modelVersion,
    predictionId: predictionId ?? toPredictionId(source.idScope, line, fields),
    timestampMs,
    features: parts.features,
    prediction: parts.prediction,
    // A line without any label is a prediction that nobody has labelled yet.
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
 * A file has no types: what reads as an integer, a float or a boolean is one, all else is a string. `007` is a string, for no
 * number would give it back; 5.0 is a float.
 */
export function toScalar(text: string): Scalar {
  const first = text.charCodeAt(0)
  // Most strings begin with a letter that no number begins with.
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
