import { Readable } from 'node:stream'
import type { GivenRows } from '../connection.ts'

/** An entry of the audit log as a row: its time in ms since the Unix epoch, its details as JSON. */
export type AuditRow = { at: number; user: string; act: string; subject: string; details: string }

/** The query of the audit log, which Postgres keeps: ClickHouse is given its rows, and writes the format. */
export const selectAudit = `SELECT fromUnixTimestamp64Milli(at, 'UTC') AS time, user AS user_name, act, subject, details FROM given`

export function toGivenAudit(pages: AsyncIterable<AuditRow[]>): GivenRows {
  async function* toLines() {
    for await (const page of pages) yield page.map((it) => `${JSON.stringify(it)}\n`).join('')
  }
  return {
    structure: 'at Int64, user String, act String, subject String, details String',
    lines: Readable.from(toLines(), { objectMode: false }),
  }
}
