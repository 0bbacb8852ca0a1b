import { maxBigInt, minBigInt } from '../../../../runtime/bigint.ts'
import type { ClickHouse } from '../../connection.ts'
import { ofModel, quote } from '../expressions.ts'
import type { ModelEvents } from '../scope.ts'
import { createRollupId, dropRollup, insertRollupValues, publishRollup } from './publish.ts'
import type { RolledVersion, Rollup } from './rollup.ts'
import { chooseRollups, listRollups } from './rollups.ts'
import { cellColumns, rollupValuesTable, rollupVersionValuesTable, wholeLevel } from './tables.ts'

/** So many neighbours of a level are joined to one of the next. They are kept: a window of time may need the smaller ones. */
const neighboursJoined = 4
/** If all events are in more rollups than this, and a good part of them beyond the first, they are joined to one of all. */
const widestMax = 4
const beyondFirstMin = 1 / 9

/** Joins neighbours until there are none to join. Resolves with how many rollups it made. */
export async function joinNeighbours(clickhouse: ClickHouse, model: ModelEvents): Promise<number> {
  for (let made = 0; ; made++) {
    const next = findNeighbours(await listRollups(clickhouse, model))
    if (!next) return made
    await join(clickhouse, model, next)
  }
}

/** Makes one rollup of all events, in the place of the one before, if they are in too many. Resolves with how many it made. */
export async function joinAll(clickhouse: ClickHouse, model: ModelEvents): Promise<number> {
  const all = await listRollups(clickhouse, model)
  const whole = findWhole(all)
  if (!whole) return 0
  await join(clickhouse, model, whole)
  for (const it of all) if (it.level === wholeLevel) await dropRollup(clickhouse, model, it)
  return 1
}

type Joined = { rollups: Rollup[]; level: number }

function findNeighbours(all: Rollup[]): Joined | undefined {
  const ofLevels = chooseRollups(
    all.filter((it) => it.level !== wholeLevel),
    () => true,
  )
  for (let at = 0; at + neighboursJoined <= ofLevels.length; at++) {
    const some = ofLevels.slice(at, at + neighboursJoined)
    const level = (some[0] as Rollup).level
    if (some.every((it) => it.level === level) && areNeighbours(some)) return { rollups: some, level: level + 1 }
  }
  return undefined
}

function findWhole(all: Rollup[]): Joined | undefined {
  const widest = chooseRollups(all, () => true)
  const [first, events] = [countEvents(widest.slice(0, 1)), countEvents(widest)]
  const isDue = widest.length > widestMax && events - first >= beyondFirstMin * events
  return isDue && areNeighbours(widest) ? { rollups: widest, level: wholeLevel } : undefined
}

const countEvents = (rollups: Rollup[]) => rollups.reduce((sum, it) => sum + (it.rows.events ?? 0), 0)

const areNeighbours = (rollups: Rollup[]) =>
  rollups.every((it, at) => at === 0 || it.low === (rollups[at - 1] as Rollup).high + 1n)

async function join(clickhouse: ClickHouse, model: ModelEvents, { rollups, level }: Joined): Promise<void> {
  const { database } = clickhouse
  const id = createRollupId()
  const versions = joinVersions(rollups.flatMap((it) => it.versions))
  const isOf = (some: Rollup[]) => `${ofModel(model)} AND rollup IN (${some.map((it) => it.id)})`
  await insertRollupValues(clickhouse, id, `${database}.${rollupValuesTable} WHERE ${isOf(rollups)}`)
  if (versions.length > 1) {
    const [several, one] = [
      rollups.filter((it) => it.versions.length > 1),
      rollups.filter((it) => it.versions.length === 1),
    ]
    const columns = `${cellColumns}, weight, least, most`
    const version = `transform(rollup, [${one.map((it) => it.id)}]::Array(UInt64), [${one.map((it) => quote(it.versions[0]?.version ?? ''))}]::Array(String), '')`
    const selects = [
      ...(several.length === 0
        ? []
        : [`SELECT version, ${columns} FROM ${database}.${rollupVersionValuesTable} WHERE ${isOf(several)}`]),
      ...(one.length === 0
        ? []
        : [`SELECT ${version} AS version, ${columns} FROM ${database}.${rollupValuesTable} WHERE ${isOf(one)}`]),
    ]
    await clickhouse.command(
      `INSERT INTO ${database}.${rollupVersionValuesTable} (version, ${cellColumns}, rollup, weight, least, most)
       SELECT version, ${cellColumns}, ${id}, sum(weight), min(least), max(most)
       FROM (${selects.join(' UNION ALL ')}) GROUP BY version, ${cellColumns}`,
    )
  }
  const sum = (toNumber: (it: Rollup) => number) => rollups.reduce((total, it) => total + toNumber(it), 0)
  await publishRollup(clickhouse, model, {
    id,
    level,
    low: (rollups[0] as Rollup).low,
    high: (rollups.at(-1) as Rollup).high,
    rows: { events: countEvents(rollups), event_values: sum((it) => it.rows.event_values ?? 0) },
    tombstones: sum((it) => it.tombstones),
    first: Math.min(...rollups.map((it) => it.first)),
    last: Math.max(...rollups.map((it) => it.last)),
    versions,
  })
}

function joinVersions(versions: RolledVersion[]): RolledVersion[] {
  return [...Map.groupBy(versions, (it) => it.version)].map(([version, its]) => ({
    version,
    events: its.reduce((sum, it) => sum + it.events, 0),
    first: its.map((it) => it.first).reduce(minBigInt),
    last: its.map((it) => it.last).reduce(maxBigInt),
    received: its.map((it) => it.received).reduce(maxBigInt),
  }))
}
