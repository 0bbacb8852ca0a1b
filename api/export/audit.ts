import { z } from 'zod'
import { object } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { type AuditRow, selectAudit, toGivenAudit } from '../../store/clickhouse/export/audit.ts'
import { formatClause } from '../../store/clickhouse/export/formats.ts'
import { type AuditFilter, listAudit } from '../../store/postgres/accounts/audit.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { auditFields, toAuditFilter } from '../accounts/audit-fields.ts'
import { describeFile, format } from './file.ts'
import type { ExportSlots } from './slots.ts'

const pageSize = 5_000

type Deps = { reads: Queries; clickhouse: ClickHouse; slots: ExportSlots }

/** The audit log of an organization as a file. */
export function createAuditExportRoutes({ reads, clickhouse, slots }: Deps): Route[] {
  async function* listPages(organizationId: string, filter: AuditFilter): AsyncGenerator<AuditRow[]> {
    for (let beforeId: bigint | undefined; ; ) {
      const entries = await listAudit(reads, { ...filter, organizationId, beforeId, limit: pageSize })
      yield entries.map(({ atMs, actor, act, subject, details }) => ({
        ...{ at: Math.floor(atMs), user: actor, act, subject, details: JSON.stringify(details) },
      }))
      beforeId = entries.at(-1)?.id
      if (entries.length < pageSize) return
    }
  }

  return [
    route({
      method: 'GET',
      path: '/export/audit',
      permission: 'auditor',
      topic: 'Export',
      summary:
        'Exports the audit log of the organization, or the entries that match every filter given, the newest first. It comes ' +
        'whole or as an error. A user has one export at a time.',
      query: object({ ...auditFields, format }),
      answer: z.string(),
      shape: 'bytes',
      async handle({ query: { format = 'parquet', ...asked }, caller, reply }) {
        const signal = await slots.take(caller.userId, reply.raw)
        const given = toGivenAudit(listPages(caller.organizationId, toAuditFilter(asked)))
        const { stream, rows } = await clickhouse.streamExport(`${selectAudit} ${formatClause(format)}`, {
          isWhole: true,
          signal,
          given,
        })
        describeFile(reply, 'audit', format)
        reply.header('x-export-rows', rows)
        return stream
      },
    }),
  ]
}
