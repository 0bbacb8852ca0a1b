import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { summarizeStored } from '../../store/clickhouse/points/store-blocks.ts'

/**
 * Points, lines of output and parameters by a formula, so that `clients/python/bench/export_values.py` can compute what an
 * export must have. The number of a point is that of its run times the points of a run, plus its place; of its 64 mixed bits
 * every second metric is any float whatever, and the others a number below 1. Names, steps, epochs and times have what exports
 * stumble over: quotes, line ends, `NA`, the extremes of int64, integers that no float holds, and absent ones.
 */
export const metrics = [
  ...['loss', 'NA', 'train/acc', 'a "b", c', 'of two\nlines\tand', 'äöü λ 😀', `it's \\ back`, 'true', '1', 'z z'],
]
export const contexts = ['', 'train', 'validate']

/** NaN, the infinities, both zeros, the least and the greatest float, and two that have many digits. */
export const specialBits = [
  ...['9221120237041090560', '9218868437227405312', '18442240474082181120', '0', '9223372036854775808'],
  ...['1', '9218868437227405311', '4591870180066957722', '4599075939470750516'],
]

export type Points = { metrics: number; 'system-metrics': number; output: number }
export const seeds: Points = { metrics: 0, 'system-metrics': 2 ** 40, output: 0 }
const tables = { metrics: 'points', 'system-metrics': 'system_points' } as const
export const timeMs = 1_700_000_000_000
export const receivedMs = 1_600_000_000_000

const quote = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

/** Makes the points of experiments, given by their ids in the order of their runs. Those of the first come twice, as a repeated delivery. */
export async function insertPoints(clickhouse: ClickHouse, ids: string[], points: Points) {
  const list = `[${ids.join(',')}]::Array(UInt64)`
  for (const what of ['metrics', 'system-metrics'] as const) {
    const ofRun = points[what]
    const last = ofRun / metrics.length - 1
    const step = `multiIf(k = 0, toInt64('-9223372036854775808'), k = ${last}, toInt64(9223372036854775807), k = ${last - 1}, 9007199254740993, k = ${last - 2}, -9007199254740993, k)`
    const insert = (runs: number) =>
      clickhouse.command(
        `INSERT INTO ${clickhouse.database}.${tables[what]}
           (experiment_id, metric, context, step, timestamp, request_hi, request_lo, place, epoch, received, present, value_bits)
         WITH ${list} AS ids,
           number AS n, toInt64(number % ${ofRun}) AS j, j % ${metrics.length} AS m, intDiv(j, ${metrics.length}) AS k,
           (n + ${seeds[what]} + 1) * 11400714819323198485 AS x0, bitXor(x0, bitShiftRight(x0, 30)) * 13787848793156543929 AS x1,
           bitXor(x1, bitShiftRight(x1, 27)) * 10723151780598845931 AS x2, bitXor(x2, bitShiftRight(x2, 31)) AS mixed,
           if(isNaN(reinterpretAsFloat64(mixed)), ${specialBits[0]}, mixed) AS anything,
           reinterpretAsUInt64(toFloat64(bitShiftRight(mixed, 11)) * 1.1102230246251565e-16) AS fraction
         SELECT ids[toUInt32(intDiv(n, ${ofRun})) + 1], [${metrics.map(quote).join(', ')}][m + 1],
           [${contexts.map(quote).join(', ')}][m % ${contexts.length} + 1], if(k % 97 = 5, 0, ${step}),
           if(k % 101 = 7, 0, ${timeMs} + n), 1, n, 0, if(k % 3 = 0, 0, if(k = 1, toInt64(9223372036854775807), intDiv(k, 100))), ${receivedMs},
           (k % 97 != 5) * 1 + (k % 3 != 0) * 2 + (k % 101 != 7) * 4,
           multiIf(k % 53 = 0, [${specialBits.join(', ')}]::Array(UInt64)[n % ${specialBits.length} + 1], m % 2 = 0, anything, fraction)
         FROM numbers(${runs * ofRun})`,
      )
    await insert(ids.length)
    await insert(1)
  }
  await summarizeStored(clickhouse, `experiment_id IN (${ids.join(', ')})`)
  await clickhouse.command(
    `INSERT INTO ${clickhouse.database}.output_lines
       (experiment_id, offset, timestamp, request_hi, request_lo, place, context, stderr, received, present, line)
     WITH ${list} AS ids, number AS n, toInt64(number % ${points.output}) AS j
     SELECT ids[toUInt32(intDiv(n, ${points.output})) + 1], if(j = ${points.output - 1}, toInt64(9223372036854775807), j), ${timeMs} + n, 1, n, 0,
       if(n % 5 = 0, 'train', ''), n % 3 = 0, ${receivedMs}, 12, concat('line ', toString(n), ', "quoted" \\\\ äöü', if(n % 2 = 0, '\\n', ''))
     FROM numbers(${ids.length * points.output})`,
  )
}
