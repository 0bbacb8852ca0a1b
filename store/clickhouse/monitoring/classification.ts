import { literal, quote } from './expressions.ts'
import { type Judged, readPairs } from './label-quality.ts'
import type { EventReader } from './reader.ts'

/**
 * How well a score separates two classes. All is computed from pairs of a score, which is a finite number, and its label;
 * predictions without either are left out. Without `positive` the labels must be 0 and 1, or booleans; else the positive
 * class is the label of this text, or of this number, and all other labels are negative.
 */
export type Scored = Judged & { positive: string | undefined }

/** Labels that are neither 0 nor 1, where these are needed. */
export class LabelsNotBinary extends Error {}

export type CurveWindow = {
  window: number
  positives: number
  negatives: number
  /**
   * The probability that a positive has a higher score than a negative, equal scores counting half: the area under the ROC
   * curve, as `sklearn.metrics.roc_auc_score`. Null unless there are both classes, as are the others.
   */
  rocAuc: number | null
  /** The greatest distance of the distribution functions of the scores of both classes: `scipy.stats.ks_2samp`. */
  kolmogorovSmirnov: number | null
  /** 2 rocAuc - 1. */
  gini: number | null
}

/** @throws LabelsNotBinary */
export async function readCurve(reader: EventReader, scored: Scored): Promise<CurveWindow[]> {
  type Row = { w: number; p: string; n: string; odd: string; auc: number | null; ks: number | null }
  const rows = await readPairs<Row>(
    reader,
    scored,
    (pairs) => `SELECT w, max(allP) AS p, max(allN) AS n, sum(others) AS odd,
        sum(isP * (sumN - isN / 2)) / max(allP) / max(allN) AS auc,
        if(max(allP) = 0 OR max(allN) = 0, nan, max(abs(sumP / allP - sumN / allN))) AS ks
      FROM (
        SELECT w, isP, isN, others, sum(isP) OVER whole AS allP, sum(isN) OVER whole AS allN,
          sum(isP) OVER upTo AS sumP, sum(isN) OVER upTo AS sumN
        FROM (${selectScores(pairs, scored.positive)})
        WINDOW whole AS (PARTITION BY w),
          upTo AS (PARTITION BY w ORDER BY score ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW))
      GROUP BY w ORDER BY w`,
  )
  refuseOthers(rows.map((it) => Number(it.odd)))
  return rows.map(({ w, p, n, auc, ks }) => ({
    window: Number(w),
    positives: Number(p),
    negatives: Number(n),
    rocAuc: auc,
    kolmogorovSmirnov: ks,
    gini: auc === null ? null : 2 * auc - 1,
  }))
}

/** The pairs of a range of scores. */
export type Band = { scoreFrom: number; scoreTo: number; count: number; positives: number }

/**
 * Divides the pairs of all windows into bands of about equal size, the highest scores first. A pair of rank r (0 is the
 * highest score) of n belongs to the band floor(r * bands / n). Equal scores are never divided: all belong to the band of the
 * first of them, so a band may be larger than others, or missing.
 *
 * @throws LabelsNotBinary
 */
export async function readBands(
  reader: EventReader,
  scored: Scored,
  bandCount: number,
): Promise<(Band & { band: number })[]> {
  type Row = { band: string; low: number; high: number; p: string; n: string; odd: string }
  const rows = await readPairs<Row>(
    reader,
    scored,
    (
      pairs,
    ) => `SELECT toUInt32(intDiv((upTo - size) * ${bandCount}, greatest(total, 1))) AS band, min(score) AS low, max(score) AS high,
        sum(isP) AS p, sum(isN) AS n, sum(others) AS odd
      FROM (
        SELECT score, isP, isN, others, isP + isN AS size, sum(size) OVER () AS total,
          sum(size) OVER (ORDER BY score DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS upTo
        FROM (SELECT score, sum(isP) AS isP, sum(isN) AS isN, sum(others) AS others
          FROM (${selectScores(pairs, scored.positive)}) GROUP BY score))
      WHERE total > 0 OR others > 0 GROUP BY band ORDER BY band`,
  )
  refuseOthers(rows.map((it) => Number(it.odd)))
  return rows.map(({ band, low, high, p, n }) => ({
    band: Number(band),
    scoreFrom: low,
    scoreTo: high,
    count: Number(p) + Number(n),
    positives: Number(p),
  }))
}

/** The positives and negatives (`isP`, `isN`) of each score, and its labels of no class (`others`). */
function selectScores(pairs: string, positive: string | undefined): string {
  const isPositive = positive === undefined ? "trueCategory = '1'" : isLabel(positive)
  const isNegative = positive === undefined ? "trueCategory = '0'" : `NOT (${isLabel(positive)})`
  return `SELECT w, number + 0 AS score, countIf(${isPositive}) AS isP, countIf(${isNegative}) AS isN, count() - isP - isN AS others
    FROM (${pairs}) WHERE isLabelled AND isScore AND isFinite(number) GROUP BY w, score`
}

/** A label of this text. A number may be written in another way; a boolean label is 0 or 1 beside a score. */
function isLabel(positive: string): string {
  const asNumber = { true: 1, false: 0 }[positive] ?? (positive.trim() === '' ? Number.NaN : Number(positive))
  const isText = `trueCategory = ${quote(positive)}`
  return Number.isFinite(asNumber) ? `(${isText} OR (isNumeric AND trueNumber = ${literal(asNumber)}))` : isText
}

function refuseOthers(others: number[]): void {
  if (others.some((it) => it > 0)) throw new LabelsNotBinary('the labels are not 0 and 1')
}
