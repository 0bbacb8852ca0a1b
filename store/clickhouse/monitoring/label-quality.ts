import { isMissing, windowIndex } from './expressions.ts'
import type { EventReader } from './reader.ts'
import { type EventScope, type FeatureNames, inWindows, type Windows } from './scope.ts'
import { countedValues, eventRows, valueRows } from './source.ts'

/** Predictions of a model and their labels, joined by prediction id; windows are of the time of the prediction. */
export type Judged = { scope: EventScope; windows: Windows; prediction: string; label: string }

export type LabelledWindow = { window: number; predictions: number; labelled: number }

export type ErrorWindow = LabelledWindow & {
  /** Pairs of finite numbers. */
  pairs: number
  meanAbsoluteError: number | null
  rootMeanSquaredError: number | null
  /** The mean of prediction minus label. */
  bias: number | null
}

/** Reads the errors of numeric predictions. */
export async function readErrors(reader: EventReader, judged: Judged): Promise<ErrorWindow[]> {
  type Row = { w: number; n: string; labelled: string; pairs: string } & Record<'mae' | 'rmse' | 'bias', number | null>
  const isPair = 'isNumeric AND isFinite(number) AND isFinite(trueNumber)'
  const rows = await readPairs<Row>(
    reader,
    judged,
    (pairs) => `SELECT w, sum(all) AS n, countIf(isLabelled) AS labelled, countIf(${isPair}) AS pairs,
        avgIf(abs(number - trueNumber), ${isPair}) AS mae, sqrt(avgIf(pow(number - trueNumber, 2), ${isPair})) AS rmse,
        avgIf(number - trueNumber, ${isPair}) AS bias
      FROM (${pairs}) GROUP BY w ORDER BY w`,
  )
  return rows.map((row) => ({
    window: Number(row.w),
    predictions: Number(row.n),
    labelled: Number(row.labelled),
    pairs: Number(row.pairs),
    meanAbsoluteError: row.mae,
    rootMeanSquaredError: row.rmse,
    bias: row.bias,
  }))
}

export type ClassQuality = { name: string; correct: number; predicted: number; actual: number }

export type ClassWindow = LabelledWindow & {
  accuracy: number | null
  /** Means over all classes that were predicted or true, each with the same weight; a class never predicted counts as 0. */
  precision: number | null
  recall: number | null
  f1: number | null
  classCount: number
  /** The most frequent ones. */
  classes: ClassQuality[]
}

/** Reads how often the predicted class is the label. */
export async function readClasses(reader: EventReader, judged: Judged, top: number): Promise<ClassWindow[]> {
  type Row = { w: number; n: string; labelled: string; accuracy: number | null; classCount: string } & Record<
    'precision' | 'recall' | 'f1',
    number | null
  > & { classes: [name: string, correct: string, predicted: string, actual: string][] }
  const rows = await readPairs<Row>(
    reader,
    judged,
    (
      pairs,
    ) => `SELECT w, max(rowsOfWindow) AS n, max(labelledOfWindow) AS labelled, sum(tp) / max(labelledOfWindow) AS accuracy,
        countIf(isClass) AS classCount,
        avgIf(if(predicted = 0, 0, tp / predicted), isClass) AS precision,
        avgIf(if(actual = 0, 0, tp / actual), isClass) AS recall, avgIf(2 * tp / (predicted + actual), isClass) AS f1,
        arraySlice(arraySort(it -> (-it.4, -it.3, it.1), groupArrayIf((class, tp, predicted, actual), isClass)), 1, ${top}) AS classes
      FROM (
        SELECT w, class, class != '' AS isClass, any(windowRows) AS rowsOfWindow, any(windowLabelled) AS labelledOfWindow,
          sumIf(c, class != '' AND guess = truth AND truth = class) AS tp, sumIf(c, class != '' AND guess = class) AS predicted,
          sumIf(c, class != '' AND truth = class) AS actual
        FROM (
          SELECT *, arrayJoin(if(truth = '', [''], arrayDistinct([guess, truth]))) AS class,
            sum(n) OVER (PARTITION BY w) AS windowRows, sumIf(c, truth != '') OVER (PARTITION BY w) AS windowLabelled
          FROM (SELECT w, concat('.', category) AS guess, if(isLabelled, concat('.', trueCategory), '') AS truth, count() AS c, sum(all) AS n
            FROM (${pairs}) GROUP BY w, guess, truth))
        GROUP BY w, class)
      GROUP BY w ORDER BY w`,
  )
  return rows.map((row) => ({
    window: Number(row.w),
    predictions: Number(row.n),
    labelled: Number(row.labelled),
    accuracy: row.accuracy,
    precision: row.precision,
    recall: row.recall,
    f1: row.f1,
    classCount: Number(row.classCount),
    classes: row.classes.map(([name, correct, predicted, actual]) => ({
      name: name.slice(1),
      correct: Number(correct),
      predicted: Number(predicted),
      actual: Number(actual),
    })),
  }))
}

/**
 * Runs a query over the pairs of a prediction and its label. One more row per window holds the number of all its
 * predictions (`all`, not labelled). A boolean and a number are compared as numbers.
 */
export async function readPairs<Row>(
  reader: EventReader,
  { scope, windows, prediction, label }: Judged,
  toQuery: (pairs: string) => string,
): Promise<Row[]> {
  const predicted = inWindows(scope, windows)
  // Labels may arrive long before or after, and may name another version.
  const labelled: EventScope = { modelId: scope.modelId, kind: 'LATE_LABELS' }
  const [ofPredicted, ofLabelled] = await Promise.all([reader.findCatalog(predicted), reader.findCatalog(labelled)])
  const value: FeatureNames = { part: 'prediction', names: [prediction] }
  const ofId = 'claim, place, id_hash'
  const sources = [
    countedValues(predicted, value, ofPredicted, { windows }),
    { ...eventRows(predicted, ofPredicted), columns: ofId },
    valueRows(predicted, value, ofPredicted),
    { ...eventRows(labelled, ofLabelled), columns: ofId },
    valueRows(labelled, { part: 'label', names: [label] }, ofLabelled),
  ]
  const asNumber = (type: string, other: string) => `(${type} = 3 AND ${other} IN (1, 2))`
  const category = (type: string, other: string, number: string, text: string) =>
    `multiIf(${asNumber(type, other)}, toString(${number}), ${type} = 3, if(${number} = 0, 'false', 'true'),
      ${text} != '' OR ${type} = 4, toString(${text}), toString(${number}))`
  return await reader.read<Row>(sources, ([counted, events, values, labelEvents, labels]) =>
    toQuery(`SELECT ${windowIndex(windows)} AS w, sum(weight) AS all, 0 AS number, 0 AS trueNumber, false AS isLabelled,
        false AS isScore, false AS isNumeric, '' AS category, '' AS trueCategory
      FROM ${counted} WHERE NOT ${isMissing} GROUP BY w
      UNION ALL
      SELECT w, 0 AS all, number, trueNumber, true AS isLabelled,
        type IN (1, 2) AS isScore, type IN (1, 2, 3) AND trueType IN (1, 2, 3) AS isNumeric,
        ${category('type', 'trueType', 'number', 'text')} AS category,
        ${category('trueType', 'type', 'trueNumber', 'trueText')} AS trueCategory
      FROM (
        SELECT ${windowIndex(windows)} AS w, claim, place, type, number, text FROM ${values} WHERE NOT ${isMissing}) AS predictions
      INNER JOIN (
        SELECT e.claim AS claim, e.place AS place, t.type AS trueType, t.number AS trueNumber, t.text AS trueText
        FROM ${events} AS e
        LEFT SEMI JOIN (
          SELECT l.id_hash AS id_hash, v.type AS type, v.number AS number, v.text AS text
          FROM ${labelEvents} AS l
          INNER JOIN (SELECT claim, place, type, number, text FROM ${labels} WHERE NOT ${isMissing}) AS v
            ON l.claim = v.claim AND l.place = v.place) AS t ON e.id_hash = t.id_hash
      ) AS pairs ON predictions.claim = pairs.claim AND predictions.place = pairs.place`),
  )
}
