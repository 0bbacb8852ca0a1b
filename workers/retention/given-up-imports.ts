import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { deleteExperimentRows } from '../../store/clickhouse/deletions.ts'
import { deleteImport, listGivenUpImports } from '../../store/postgres/archive/imports.ts'
import type { Queries } from '../../store/postgres/database.ts'

/** Deletes what imports stored that did not end: rows in ClickHouse of experiments that never came to be. */
export async function sweepGivenUpImports(queries: Queries, clickhouse: ClickHouse): Promise<void> {
  for (const { importId, experimentIds } of await listGivenUpImports(queries)) {
    if (experimentIds.length > 0) await deleteExperimentRows(clickhouse, experimentIds)
    await deleteImport(queries, importId)
  }
}
