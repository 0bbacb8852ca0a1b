import { type DataType, tableFromArrays, tableToIPC } from '@uwdata/flechette'

/** Columns by name; a type where it is not the first that fits. */
export type ArrowTable = {
  columns: Record<string, unknown[]>
  types?: Record<string, DataType>
  metadata?: Record<string, string>
}

/** Writes an Arrow stream by another implementation than the one that reads it. */
export function toArrowStream({ columns, types = {}, metadata = {} }: ArrowTable): Buffer {
  const table = tableFromArrays(columns, { types })
  table.schema.metadata = new Map(Object.entries(metadata))
  const bytes = tableToIPC(table, { format: 'stream' })
  if (bytes === null) throw new Error('The table was written to a sink.')
  return Buffer.from(bytes)
}
