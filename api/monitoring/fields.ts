import { z } from 'zod'
import { integerBetween, optional } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import type { FeatureName } from '../../store/clickhouse/monitoring/scope.ts'
import { type ValuePart, valueParts } from '../../store/clickhouse/monitoring/tables.ts'

/** Fields and errors that several monitoring routes share. */

export const commonFields = {
  method: 'GET',
  permission: 'caller',
  topic: 'Production monitoring',
  atRoot: true,
  shape: 'plain',
} as const

export const typeAnswer = z.enum(['numeric', 'categorical']).describe('numeric when most values are numbers')

export const allParts = Object.keys(valueParts) as ValuePart[]

export const expected = (values: readonly string[]) => ({ error: `must be one of ${values.join(', ')}` })

export const partField = optional(z.enum(allParts, expected(allParts)))
/** An integer in the query. */
export const count = (least: number, most: number) => optional(integerBetween(least, most))

export function unknownFeature({ part, name }: FeatureName, known: string[], field = 'feature'): HttpError {
  const some = known
    .slice(0, 10)
    .map((it) => it.slice(0, 100))
    .join(', ')
  const hint = known.length === 0 ? `it has no ${part}` : `it has ${some}${known.length > 10 ? ', ..' : ''}`
  return new HttpError('featureUnknown', `${field}: the model has no ${part} "${name.slice(0, 200)}": ${hint}.`)
}
