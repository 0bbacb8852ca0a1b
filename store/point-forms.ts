/**
 * In which forms points are or may be stored: a row each, or the points of a series in a request as one (a chunk). Postgres notes it
 * of each experiment before the first point in a form is queued (`experiments.has_rows`, `has_chunks`), and reads look for points in
 * no other: to read both tables takes half as long again.
 */
export type PointForms = { hasRows: boolean; hasChunks: boolean }

export const bothForms: PointForms = { hasRows: true, hasChunks: true }

/** The forms that the points of several may be stored in. Where none is noted, rows are looked for. */
export function formsOf(noted: readonly PointForms[]): PointForms {
  const hasChunks = noted.some((it) => it.hasChunks)
  return { hasRows: !hasChunks || noted.some((it) => it.hasRows), hasChunks }
}
