import { expect } from 'vitest'
import { insertNewKey, type KeyFields } from '../../store/postgres/accounts/keys.ts'
import type { Database } from '../../store/postgres/database.ts'

/** The ways in which the owner of a workspace calls with less than a whole key, or by a browser. */
export const scopedKinds = [
  // First: what it deletes is gone for itself too.
  ...(['key of the project', 'reading key', 'writing key', 'key of the workspace'] as const),
  ...(['key of another place', 'ended key', 'session', 'session of a reading key'] as const),
]
export type ScopedKind = (typeof scopedKinds)[number]

type Needs = 'read' | 'write' | 'manage'

/**
 * What they are answered where the owner is allowed: true for the same, else the codes of the refusal.
 *
 * @param isOfProject whether the call is about one project, or what is in it
 */
export function expectedOf(kind: ScopedKind, needs: Needs, isOfProject: boolean): true | number[] {
  if (kind === 'ended key') return [keyEnded]
  if (kind === 'key of another place') return [keyRestricted]
  if (kind === 'session' || kind === 'key of the workspace') return true
  if (kind === 'reading key' || kind === 'session of a reading key')
    return needs === 'read' || [keyScope, ...needsEditor]
  if (needs === 'manage') return [keyScope, keyRestricted]
  return kind === 'writing key' || isOfProject || [keyRestricted]
}

const keyEnded = 90212
const keyRestricted = 8000151
const keyScope = 8000152
/** Of a read that only editors make. */
const needsEditor = [90210, 8000016, 8000150]

type Settings = {
  database: Database
  url: string
  owner: { userName: string }
  otherWorkspaceName: string
  workspaceName: string
}

/** Opens them; answers the headers of each. The key of the project is made for the project that is asked about. */
export async function openScopedCallers({ database, url, owner, workspaceName, otherWorkspaceName }: Settings) {
  const find = async (sql: string, value: string) => (await database.row<{ id: string }>(sql, [value]))?.id as string
  const userId = await find('SELECT id FROM users WHERE user_name = $1', owner.userName)
  const makeKey = async (fields: KeyFields = {}) => (await insertNewKey(database, userId, fields)).apiKey
  const workspaceId = await find('SELECT id FROM workspaces WHERE name = $1', workspaceName)
  const otherId = await find('SELECT id FROM workspaces WHERE name = $1', otherWorkspaceName)
  const signIn = async (apiKey: string) => {
    const answer = await fetch(`${url}/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ apiKey }),
    })
    expect(answer.status).toBe(200)
    return { cookie: answer.headers.get('set-cookie')?.split(';')[0] ?? '', 'sec-fetch-site': 'same-origin' }
  }
  const withKey = (authorization: string) => ({ authorization })
  const readingKey = await makeKey({ scope: 'read' })
  const ofAll = {
    'reading key': withKey(readingKey),
    'writing key': withKey(await makeKey({ scope: 'write' })),
    'key of the workspace': withKey(await makeKey({ workspaceId })),
    'key of another place': withKey(await makeKey({ workspaceId: otherId })),
    'ended key': withKey(await makeKey({ expiresAtMs: Date.now() - 60_000 })),
    session: await signIn(await makeKey()),
    'session of a reading key': await signIn(readingKey),
  }
  return {
    /** For what is in a workspace of its own. */
    toWorkspace: async (name: string) => ({
      ...ofAll,
      'key of the workspace': withKey(
        await makeKey({ workspaceId: await find('SELECT id FROM workspaces WHERE name = $1', name) }),
      ),
    }),
    toProject: async (projectId: string): Promise<Record<ScopedKind, Record<string, string>>> => ({
      ...ofAll,
      'key of the project': withKey(await makeKey({ scope: 'write', projectId })),
    }),
  }
}
