import { z } from 'zod'
import { object, pageFields } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import { listAudit } from '../../store/postgres/accounts/audit.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { auditFields, toAuditFilter } from './audit-fields.ts'

const pageSizeMax = 1_000
const pageSizeDefault = 100

const entryAnswer = z.object({
  at: z.int().describe('ms since the Unix epoch'),
  userName: z.string().describe('who did it'),
  act: z.string().describe('the kind of act, such as `key.revoked`'),
  subject: z.string().describe('the object of the act'),
  details: z.record(z.string(), z.unknown()).meta({ type: 'object' }),
})

/** The audit log of an organization. */
export function createAuditRoutes({ reads }: { reads: Queries }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/admin/audit',
      permission: 'auditor',
      topic: 'Administration',
      summary:
        'Lists the changes of users, service accounts, keys, secrets, limits, retention, memberships and webhooks, and what ' +
        'became of dead letters, newest first. All filters that are given must match. `nextPage` is the `page` to request ' +
        'next, or null.',
      query: object({ ...auditFields, ...pageFields(pageSizeMax) }),
      answer: z.object({ entries: z.array(entryAnswer), nextPage: z.string().nullable() }),
      shape: 'plain',
      async handle({ query: { page, pageSize = pageSizeDefault, ...given }, caller }) {
        const entries = await listAudit(reads, {
          ...toAuditFilter(given),
          organizationId: caller.organizationId,
          beforeId: page === undefined ? undefined : BigInt(page),
          limit: pageSize + 1,
        })
        const shown = entries.slice(0, pageSize)
        const last = shown.at(-1)
        return {
          entries: shown.map(({ atMs, actor, act, subject, details }) => ({
            at: Math.floor(atMs),
            userName: actor,
            act,
            subject,
            details,
          })),
          nextPage: entries.length > pageSize && last ? String(last.id) : null,
        }
      },
    }),
  ]
}
