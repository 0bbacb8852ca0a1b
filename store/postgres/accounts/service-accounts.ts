import type { Database, Queries } from '../database.ts'
import { type Actor, administer } from './audit.ts'
import { insertNewKey, type NewKey } from './keys.ts'
import type { Role } from './visibility.ts'

type NewAccount = {
  name: string
  defaultWorkspaceName: string
  /** The workspaces it may use; undefined for all of the organization. */
  authorizedWorkspaces: string[] | undefined
  /** What it may do in each of its workspaces; an editor when undefined. */
  role?: Role | undefined
}

/** A named workspace that the organization does not have. */
type MissingWorkspace = { missingWorkspace: string }

/**
 * Makes a service account with its first key. Fails with a unique violation when the organization has a user or service
 * account of this name.
 */
export async function insertServiceAccount(
  database: Database,
  actor: Actor,
  { name, defaultWorkspaceName, authorizedWorkspaces, role = 'editor' }: NewAccount,
): Promise<NewKey | MissingWorkspace> {
  const { organizationId } = actor
  return await administer(database, actor, async (queries, note) => {
    const named = [defaultWorkspaceName, ...(authorizedWorkspaces ?? [])]
    const ids = await findWorkspaceIds(queries, organizationId, named)
    const missingWorkspace = named.find((it) => !ids.has(it))
    if (missingWorkspace !== undefined) return { missingWorkspace }
    const row = await queries.row<{ userId: string }>(
      `INSERT INTO users (organization_id, user_name, kind, created_by, default_workspace_id, workspace_role, last_active_at_ms)
       VALUES ($1, $2, $3, $4, $5, $6, floor(extract(epoch FROM now()) * 1000)) RETURNING id AS "userId"`,
      [
        organizationId,
        name,
        authorizedWorkspaces ? 'restricted service' : 'global service',
        actor.userName,
        ids.get(defaultWorkspaceName),
        authorizedWorkspaces ? null : role,
      ],
    )
    const { userId } = row as { userId: string }
    await queries.row(
      'INSERT INTO workspace_members (workspace_id, user_id, role) SELECT id, $1, $3 FROM unnest($2::uuid[]) AS listed(id)',
      [userId, [...new Set(authorizedWorkspaces)].map((it) => ids.get(it)), role],
    )
    const key = await insertNewKey(queries, userId, { createdBy: actor.userName })
    const authorized = authorizedWorkspaces ?? null
    await note('service-account.created', name, { keyId: key.keyId, authorizedWorkspaces: authorized, role })
    return key
  })
}

async function findWorkspaceIds(
  queries: Queries,
  organizationId: string,
  names: string[],
): Promise<Map<string, string>> {
  const rows = await queries.rows<{ id: string; name: string }>(
    'SELECT id, name FROM workspaces WHERE organization_id = $1 AND name = ANY($2)',
    [organizationId, names],
  )
  return new Map(rows.map((it) => [it.name, it.id]))
}
