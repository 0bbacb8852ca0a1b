import type { ClickHouse } from '../../../store/clickhouse/connection.ts'

/** The tables of points as versions before 0.1.0 made them: values are floats. */
export const floatColumns = `experiment_id UInt64 CODEC(Delta, ZSTD(1)), metric LowCardinality(String), context LowCardinality(String),
  step Int64, timestamp Int64, request_hi UInt64, request_lo UInt64, place UInt32, epoch Int64, received Int64, present UInt8,
  value Float64 CODEC(ZSTD(1))`
export const floatOrder = `PRIMARY KEY (experiment_id, metric, context, step)
  ORDER BY (experiment_id, metric, context, step, timestamp, request_hi, request_lo, place, epoch, present, reinterpretAsUInt64(value))`

export async function createFloatTables(clickhouse: ClickHouse) {
  const within = (name: string) => `${clickhouse.database}.${name}`
  await clickhouse.command(`CREATE DATABASE ${clickhouse.database}`)
  for (const name of ['points', 'system_points']) {
    await clickhouse.command(`CREATE TABLE ${within(name)} (${floatColumns}) ENGINE = ReplacingMergeTree ${floatOrder}`)
  }
  const state = (pick: string) => `AggregateFunction(${pick}, Tuple(Float64, Int64, Int64, UInt8), UInt256)`
  await clickhouse.command(
    `CREATE TABLE ${within('points_summary')} (experiment_id UInt64, metric LowCardinality(String),
       context LowCardinality(String), minimum ${state('argMin')}, maximum ${state('argMax')}, current ${state('argMax')},
       rows SimpleAggregateFunction(sum, UInt64)) ENGINE = AggregatingMergeTree ORDER BY (experiment_id, metric, context)`,
  )
  const kept = '(value, step, timestamp, present)'
  await clickhouse.command(
    `CREATE MATERIALIZED VIEW ${within('points_summary_view')} TO ${within('points_summary')} AS
     SELECT experiment_id, metric, context, argMinState(${kept}, toUInt256(step)) AS minimum,
       argMaxState(${kept}, toUInt256(step)) AS maximum, argMaxState(${kept}, toUInt256(step)) AS current, count() AS rows
     FROM ${within('points')} GROUP BY experiment_id, metric, context`,
  )
}
