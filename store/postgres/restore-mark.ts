import type { Queries } from './database.ts'

/** This table exists while a backup is restored, and after a restore that was interrupted. */
export const restoreMark = 'svc_restore'

/**
 * Resolves when no restore is under way.
 *
 * @throws Error that says what to do
 */
export async function checkRestored(queries: Queries): Promise<void> {
  const table = await queries.row<{ found: string | null }>('SELECT to_regclass($1)::text AS found', [restoreMark])
  if (!table?.found) return
  const mark = await queries.row<{ id: string }>(`SELECT backup_id AS id FROM ${restoreMark}`)
  throw new Error(
    `Postgres holds a part of the backup ${mark?.id ?? ''} only: its restore is running, or was interrupted. ` +
      'Wait for it, or repeat "svc restore".',
  )
}
