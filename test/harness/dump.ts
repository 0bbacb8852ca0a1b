import type { Database } from '../../store/postgres/database.ts'

/** Every value of every table, as text and, where it is bytes, also as the text those are. */
export async function dump(database: Database): Promise<string> {
  const columns = await database.rows<{ table: string; column: string; type: string }>(
    `SELECT format('%I.%I', table_schema, table_name) AS "table", format('%I', column_name) AS "column", data_type AS type
     FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
     WHERE table_type = 'BASE TABLE' AND table_schema NOT IN ('pg_catalog', 'information_schema')`,
  )
  const texts: string[] = []
  for (const { table, column, type } of columns) {
    const rows = await database.rows<{ value: string | Buffer | null }>(
      `SELECT ${type === 'bytea' ? column : `${column}::text`} AS value FROM ${table}`,
    )
    for (const { value } of rows) {
      if (Buffer.isBuffer(value)) texts.push(value.toString('latin1'), value.toString('hex'), value.toString('base64'))
      else if (value !== null) texts.push(value)
    }
  }
  return texts.join('\n')
}
