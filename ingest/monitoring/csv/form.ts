import type { z } from 'zod'
import { HttpError } from '../../../http/errors.ts'
import { csvFields } from '../descriptions.ts'
import { toMissingMarkers } from './lines.ts'

export type CsvKind = 'EVENTS' | 'LATE_LABELS' | 'TRAINING_EVENTS'

/**
 * The fields of an upload besides the file.
 *
 * @param values from the query and the form
 * @throws HttpError `badRequest`
 */
export function readForm(values: Record<string, unknown>, kind: CsvKind) {
  const checked = csvFields.safeParse(values)
  const issue = checked.error?.issues[0]
  if (!checked.success) throw new HttpError('badRequest', `${issue?.path.join('.')}: ${issue?.message}`)
  const { workspaceName, modelName, modelVersion, datasetName, NAValues, keepDefaultNAValues } = checked.data
  if (!workspaceName) throw missingField('workspaceName')
  const isTraining = kind === 'TRAINING_EVENTS'
  const target = datasetName || (isTraining ? undefined : modelName)
  if (!target) throw missingField(isTraining ? 'datasetName' : 'modelName')
  const keepDefault = keepDefaultNAValues?.toLowerCase() ?? 'true'
  if (keepDefault !== 'true' && keepDefault !== 'false') {
    throw new HttpError('badRequest', 'keepDefaultNAValues: expected true or false')
  }
  return {
    workspaceName,
    /** The model, or the data set, that the events are stored for. */
    modelName: target,
    /** The model that a data set is the reference of. */
    referenceFor: modelName || undefined,
    modelVersion: modelVersion ?? '',
    markers: toMissingMarkers(NAValues, keepDefault === 'true'),
  }
}

export type CsvQuery = z.output<typeof csvFields>

function missingField(field: keyof CsvQuery): HttpError {
  return new HttpError('badRequest', `${field}: is missing (as a field of the form before the file, or in the query)`)
}

/**
 * Rejects fields that came after a file whose lines were stored without them.
 *
 * @param used the fields of the form when the first line was read
 * @param all the fields when the form ended
 */
export function refuseLateFields(used: Record<string, string>, all: Record<string, string>) {
  const late = Object.keys(csvFields.shape).filter((field) => all[field] !== used[field])
  if (late.length === 0) return
  throw new HttpError(
    'badRequest',
    `${late.join(', ')}: came after the file, whose lines were stored without it: send fields before a large file`,
  )
}
