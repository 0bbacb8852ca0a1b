import { experimentKey, object, toFieldError } from '../../http/body/fields.ts'
import { type Point, pointFields, readPlainPoint, toPoint } from './point.ts'

/** A point with its experiment key. */
export const metricFields = object({ experimentKey, ...pointFields.shape })

const keyCharactersMax = 50

/**
 * Reads a single point with its experiment key. Most need no conversion; the others go to the schema.
 *
 * @throws HttpError that names the field
 */
export function readMetric(body: unknown): { experimentKey: string; point: Point } {
  const point = readPlainPoint(body)
  const key = (body as { experimentKey?: unknown } | null | undefined)?.experimentKey
  if (point && typeof key === 'string' && /^[0-9a-zA-Z]+$/.test(key) && key.length <= keyCharactersMax) {
    return { experimentKey: key, point }
  }
  const checked = metricFields.safeParse(body ?? {})
  if (!checked.success) throw toFieldError(checked.error, body)
  return { experimentKey: checked.data.experimentKey, point: toPoint(checked.data) }
}
