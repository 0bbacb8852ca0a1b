import { z } from 'zod'
import { optional, text } from '../../http/body/fields.ts'
import { type AuditFilter, acts } from '../../store/postgres/accounts/audit.ts'

/** 9999-12-31. */
const timeMsMax = 253_402_300_799_999
const timeMs = z.coerce
  .number('expected ms since the Unix epoch')
  .int('expected ms since the Unix epoch')
  .min(0, 'must be 0 or more')
  .max(timeMsMax, `must be ${timeMsMax} or fewer`)

/** Which entries of the audit log. */
export const auditFields = {
  userName: optional(text(200, 1)).describe('who did it'),
  act: optional(z.enum(acts, { error: () => `must be one of ${acts.join(', ')}` })),
  workspaceName: optional(text(200, 1)).describe('the workspace that it was about'),
  from: optional(timeMs).describe('inclusive; ms since the Unix epoch'),
  to: optional(timeMs).describe('exclusive'),
}

type Given = { [Name in keyof typeof auditFields]: z.output<(typeof auditFields)[Name]> }

export const toAuditFilter = ({ userName, act, workspaceName, from, to }: Given): AuditFilter => ({
  userName,
  act,
  workspaceName,
  fromMs: from,
  toMs: to,
})
