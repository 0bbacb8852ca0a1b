import type { Database, Queries } from '../database.ts'
import { type ArchiveTable, archiveTables, type Column } from './tables.ts'

/** A row of an archive: its columns by name. */
export type ArchiveRow = Record<string, unknown>

export type ArchivedProject = {
  id: string
  name: string
  description: string
  isPublic: boolean
  archived: boolean
  notes: string
  owner: string
  createdAt: string
  updatedAt: string
}

/** What the archive of a project needs besides its rows. */
type Found = { project: ArchivedProject; experimentIds: bigint[] }

const experimentsAtOnce = 100

/**
 * Reads all rows of a project as of one moment. `onRows` gets them a page at a time, in the order in which tables refer to each
 * other. Experiments are named by their place in the answer, objects by their keys.
 *
 * @returns undefined when the project is gone
 */
export async function readProject(
  database: Database,
  projectId: string,
  onRows: (table: ArchiveTable, rows: ArchiveRow[]) => Promise<void>,
): Promise<Found | undefined> {
  return await database.transaction(async (queries) => {
    await queries.row('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY')
    const project = await queries.row<ArchivedProject>(
      `SELECT p.id, p.name, p.description, p.is_public AS "isPublic", p.archived, p.notes, u.user_name AS owner,
         p.created_at::text AS "createdAt", p.updated_at::text AS "updatedAt"
       FROM projects p JOIN users u ON u.id = p.owner_id WHERE p.id = $1 AND p.deleted_at IS NULL`,
      [projectId],
    )
    if (!project) return undefined
    const experiments = await queries.rows<{ id: bigint }>(
      'SELECT id FROM experiments WHERE project_id = $1 AND deleted_at IS NULL ORDER BY id',
      [projectId],
    )
    const experimentIds = experiments.map((it) => it.id)
    const places = new Map(experimentIds.map((id, place) => [String(id), place]))
    for (const table of archiveTables) {
      if (table.of === 'project') {
        await onRows(table, await readRows(queries, table, projectId, places))
        continue
      }
      for (let from = 0; from < experimentIds.length; from += experimentsAtOnce) {
        const ids = experimentIds.slice(from, from + experimentsAtOnce)
        await onRows(table, await readRows(queries, table, ids, places))
      }
    }
    return { project, experimentIds }
  })
}

async function readRows(queries: Queries, table: ArchiveTable, of: unknown, places: Map<string, number>) {
  const columns = table.columns.map((it) => `${selectColumn(it, table)} AS ${it.name}`)
  const rows = await queries.rows<ArchiveRow>(
    `SELECT ${columns.join(', ')} FROM ${table.from} ORDER BY ${table.order}`,
    [of],
  )
  const references = table.columns.filter((it) => it.kind === 'experiment')
  for (const row of rows) {
    // An experiment that belongs elsewhere is left out, with what only it refers to.
    for (const { name } of references) row[name] = places.get(String(row[name])) ?? null
  }
  const required = references.filter((it) => !it.isNullable)
  return rows.filter((row) => required.every(({ name }) => row[name] !== null))
}

function selectColumn(column: Column, table: ArchiveTable): string {
  const name = `t.${column.name}`
  if (['int64', 'float64', 'time', 'experiment'].includes(column.kind)) return `${name}::text`
  if (column.kind === 'user') return `(SELECT u.user_name FROM users u WHERE u.id = ${name})`
  if (column.kind === 'row' && table.name === 'assets') {
    // Files of artifacts of other projects stay files of their experiment.
    return `(SELECT v.id FROM artifact_versions v JOIN artifacts a ON a.id = v.artifact_id
      WHERE v.id = ${name} AND a.project_id = (SELECT e.project_id FROM experiments e WHERE e.id = t.experiment_id))`
  }
  return name
}
