import { ofScope, windowIndex } from '../expressions.ts'
import type { EventReader } from '../reader.ts'
import { countWindows, type EventScope, inWindows, type Windows } from '../scope.ts'
import { storedEvents, storedValues } from '../stored.ts'
import { eventsTable } from '../tables.ts'
import type { Rollup } from './rollup.ts'
import { chooseRollups, isOutside } from './rollups.ts'

/**
 * Finds the windows whose events are all in rollups, and of which rollups they are: undefined for the others. A window is
 * made of the same events as before while its rollups are the same: a rollup is never changed, and one that lacks a row of its
 * range is not current (`current.ts`). Only the smallest rollups count: joining them changes nothing.
 */
export async function findSettled(
  reader: EventReader,
  scope: EventScope,
  windows: Windows,
): Promise<(string[] | undefined)[]> {
  const none = Array<string[] | undefined>(countWindows(windows)).fill(undefined)
  const rollups = await findCurrentSmallest(reader, scope)
  if (rollups.length === 0) return none
  const { clickhouse } = reader
  const rows = await clickhouse.rows<{ w: number }>(
    `SELECT DISTINCT ${windowIndex(windows)} AS w FROM ${clickhouse.database}.${eventsTable.name}
     WHERE ${ofScope(inWindows({ modelId: scope.modelId, kind: scope.kind }, windows))} AND ${isOutside(rollups)}`,
  )
  const open = new Set(rows.map((it) => Number(it.w)))
  return none.map((_, at) => {
    if (open.has(at)) return undefined
    const from = windows.from + at * windows.intervalMs
    const to = Math.min(windows.to, from + windows.intervalMs)
    return rollups.filter((it) => it.first < to && it.last >= from).map((it) => it.id)
  })
}

const attemptsMax = 3

async function findCurrentSmallest(reader: EventReader, { modelId, kind }: EventScope): Promise<Rollup[]> {
  const model = { modelId, kind }
  const { rollups: known } = await reader.findCatalog(model)
  let left = chooseRollups(
    known.filter((it) => it.level === 0),
    () => true,
  )
  for (const stored of [storedEvents, storedValues]) {
    let found: Rollup[] | undefined
    for (let attempt = 0; found === undefined && attempt < attemptsMax; attempt++) {
      const parts = await reader.listParts(stored.tables.map((it) => it.name))
      // Undefined when a part went away meanwhile.
      found = (await reader.findCurrent(left, { ...stored, model, parts, known }))?.rollups
    }
    left = found ?? []
  }
  return left
}
