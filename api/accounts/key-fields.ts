import { z } from 'zod'
import { optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { findKeyPlace, type KeyFields, type OwnKey } from '../../store/postgres/accounts/keys.ts'
import { keyScopes } from '../../store/postgres/accounts/visibility.ts'
import type { Queries } from '../../store/postgres/database.ts'

const timeMs = z.int().describe('ms since the Unix epoch')

/** The latest end of a key: 2100-01-01. */
const endMsMax = Date.UTC(2100, 0, 1)

/** What a new key is called and may do. */
export const keyFields = {
  name: optional(text(100, 1)).describe('to tell it from others'),
  scope: optional(z.enum(keyScopes, { error: () => `must be one of ${keyScopes.join(', ')}` })).describe(
    'what the key may do of what its user may: `read`; `write`, which reads too; or `all`, which also manages. The default ' +
      'is `all`',
  ),
  workspaceName: optional(text(100, 1)).describe('the only workspace that the key is of use in'),
  projectName: optional(text(100, 1)).describe('with `workspaceName`: the only project that the key is of use in'),
  expiresAt: optional(z.int('expected ms since the Unix epoch').max(endMsMax, 'must be before the year 2100')).describe(
    'when the key ends; ms since the Unix epoch. Without it the key ends when it is revoked',
  ),
}

type Given = { [Name in keyof typeof keyFields]?: z.output<(typeof keyFields)[Name]> }

/** @throws HttpError that names the field */
export function checkKeyFields({ workspaceName, projectName, expiresAt }: Given) {
  if (projectName !== undefined && workspaceName === undefined) {
    throw new HttpError('badRequest', 'workspaceName: is missing: name the workspace of the project')
  }
  if (expiresAt !== undefined && expiresAt <= Date.now()) {
    throw new HttpError('badRequest', 'expiresAt: must be in the future')
  }
}

/** The fields as they are stored. @throws HttpError that names the field; `projectUnknown`, `workspaceUnknown` */
export async function toKeyFields(
  queries: Queries,
  organizationId: string,
  { name, scope, workspaceName, projectName, expiresAt }: Given,
): Promise<KeyFields> {
  checkKeyFields({ workspaceName, projectName, expiresAt })
  const fields = { name, scope, expiresAtMs: expiresAt }
  if (workspaceName === undefined) return fields
  const place = await findKeyPlace(queries, organizationId, { workspaceName, projectName })
  if (place) return { ...fields, ...place }
  const workspace = await findKeyPlace(queries, organizationId, { workspaceName })
  if (!workspace) {
    throw new HttpError('workspaceUnknown', `workspaceName: your organization has no workspace "${workspaceName}"`)
  }
  throw new HttpError('projectUnknown', `projectName: the workspace "${workspaceName}" has no project "${projectName}"`)
}

/** A key in lists, without its secret part. */
export const keyAnswer = {
  keyId: z.uuid(),
  name: z.string().nullable().describe('what its owner calls it'),
  shownPrefix: z.string().describe('the beginning of the key'),
  scope: z.enum(keyScopes),
  workspaceName: z.string().nullable().describe('the only workspace that it is of use in'),
  projectName: z.string().nullable().describe('the only project that it is of use in'),
  createdAt: timeMs,
  createdBy: z.string().nullable(),
  expiresAt: timeMs.nullable().describe('when it ends, or has ended'),
  lastUsedAt: timeMs.nullable(),
}

export function toKeyAnswer<Key extends OwnKey>({ createdAtMs, expiresAtMs, lastUsedAtMs, ...key }: Key) {
  return { ...key, createdAt: createdAtMs, expiresAt: expiresAtMs, lastUsedAt: lastUsedAtMs }
}
