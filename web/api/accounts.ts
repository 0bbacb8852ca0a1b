import { queryOptions } from '@tanstack/react-query'
import { ApiError, call, post, read } from './http.ts'

export type Session = {
  userName: string
  kind: 'user' | 'service account'
  isAdmin: boolean
  /** Reads the administration, and changes nothing. */
  isAuditor: boolean
  /** An admin who also looks after the service itself: its queue, dead letters, health and backups. */
  isOperator: boolean
  organizationId: string
  organizationName: string
  defaultWorkspaceName: string | null
  workspaceNames: string[]
  /** Those where the reader may change something: as an editor or an owner. */
  writableWorkspaceNames: string[]
  /** Null when a key is sent instead of a session. */
  sessionId: string | null
  expiresAt: number | null
  /** Where to sign out, for somebody whom a reverse proxy signs in. */
  signOutUrl: string | null
  publicUrl: string | null
  version: string
}

/** Why a reverse proxy that has signed somebody in does not help; null when there is no such reason. */
export const refusal = queryOptions({
  queryKey: ['session', 'refusal'],
  queryFn: ({ signal }) =>
    call<Session>('GET', 'session', undefined, { signal }).then(
      () => null,
      (error: unknown) => (error instanceof ApiError && error.code === identityUnknown ? error.message : null),
    ),
})

const identityUnknown = 8000115

/** Who reads this page; null for nobody. */
export const session = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }) => call<Session>('GET', 'session', undefined, { signal }).catch(nobody),
  staleTime: 60_000,
})

function nobody(error: unknown): null {
  if (error instanceof ApiError && error.status === 401) return null
  throw error
}

export const signIn = (apiKey: string) => call<Session>('POST', 'session', { apiKey })
/** Answers where to sign out at the provider that has signed the reader in. */
export const signOut = () => call<{ signOutUrl: string | null }>('DELETE', 'session')

export type SignInProvider = { id: string; name: string; path: string }

/** Where people sign in without a key. */
export const signInProviders = queryOptions({
  queryKey: ['sign-in-providers'],
  queryFn: async ({ signal }) =>
    (await call<{ providers: SignInProvider[] }>('GET', 'session/providers', undefined, { signal })).providers,
  staleTime: Number.POSITIVE_INFINITY,
})

/** What a key may do of what its owner may, and where; times are ms since the Unix epoch. */
export type KeyFacts = {
  keyId: string
  name: string | null
  shownPrefix: string
  scope: Scope
  /** The only workspace, or the only project of it, that the key is for. */
  workspaceName: string | null
  projectName: string | null
  createdAt: number
  createdBy: string | null
  expiresAt: number | null
  lastUsedAt: number | null
}
export type Scope = 'read' | 'write' | 'all'
export type Key = KeyFacts & { isCurrent: boolean }

export type NewKeyFields = {
  name?: string
  scope?: Scope
  workspaceName?: string
  projectName?: string
  expiresAt?: number
}

export const ownKeys = queryOptions({
  queryKey: ['account', 'keys'],
  queryFn: async ({ signal }) => (await read<{ keys: Key[] }>('/account/keys', {}, { signal })).keys,
})
export const createKey = (fields: NewKeyFields) => post<{ apiKey: string }>('/account/keys', fields)
export const revokeKey = (keyId: string) => post('/account/keys/revoke', { keyId })

export type BrowserSession = {
  sessionId: string
  isCurrent: boolean
  userAgent: string
  shownPrefix: string | null
  provider: string | null
  createdAt: number
  expiresAt: number
}

export const ownSessions = queryOptions({
  queryKey: ['account', 'sessions'],
  queryFn: async ({ signal }) =>
    (await read<{ sessions: BrowserSession[] }>('/account/sessions', {}, { signal })).sessions,
})
export const endSession = (sessionId: string) => post('/account/sessions/end', { sessionId })

/** Each with the rights of the one before. */
export const roles = ['viewer', 'editor', 'owner'] as const
export type Role = (typeof roles)[number]

export type Member = { userName: string; kind: Session['kind']; role: Role }

export const members = (workspaceName: string) =>
  queryOptions({
    queryKey: ['members', workspaceName],
    queryFn: ({ signal }) =>
      read<{ members: Member[]; mayManage: boolean }>('/workspaces/members', { workspaceName }, { signal }),
  })
/** Adds a member, or changes the role of one. */
export const setMember = (it: { workspaceName: string; userName: string; role: Role }) =>
  post('/write/add-workspace-member', it)
export const removeMember = (it: { workspaceName: string; userName: string }) =>
  post('/write/remove-workspace-member', it)

/** What admins see and change: users, service accounts and limits of the organization. */

export type User = {
  userName: string
  kind: Session['kind']
  role: OrganizationRole
  /** Of a service account for every workspace: its role in each. */
  workspaceRole: Role | null
  provider: string | null
  isSuspended: boolean
  defaultWorkspaceName: string | null
  authorizedWorkspaces: string[] | null
  createdAt: number
  lastActivityAt: number | null
}

export type OrganizationRole = 'member' | 'auditor' | 'admin'

export const users = queryOptions({
  queryKey: ['admin', 'users'],
  queryFn: async ({ signal }) => (await read<{ users: User[] }>('/admin/users', {}, { signal })).users,
})

const api = (path: string) => `api/rest/v2${path}`
const named = (name: string) => encodeURIComponent(name)

export const createUser = (it: { userName: string; role: OrganizationRole }) => post('/admin/users', it)
export const createUserKey = (userName: string, fields: NewKeyFields = {}) =>
  post<{ apiKey: string }>('/admin/users/keys', { userName, ...fields })
export const setOrganizationRole = (userName: string, role: OrganizationRole) =>
  call('PUT', api(`/admin/users/${named(userName)}`), { role })
export const deleteUser = (userName: string) => call('DELETE', api(`/admin/users/${named(userName)}`))

type NewAccount = {
  name: string
  teamName: string
  organizationName: string
  authorizedWorkspaces?: string[]
  role: Role
}

export const createServiceAccount = (it: NewAccount) => post<{ apiKey: string }>('/write/service-account', it)
export const createServiceKey = (name: string, fields: NewKeyFields = {}) =>
  post<{ apiKey: string }>(`/write/service-account/${named(name)}/create-api-key`, fields)
export const deleteServiceAccount = (name: string) => call('DELETE', api(`/write/service-account/${named(name)}`))

export type Limits = Record<string, number>

export const limits = (workspaceName: string) =>
  queryOptions({
    queryKey: ['admin', 'limits', workspaceName],
    queryFn: async ({ signal }) =>
      (await read<{ limits: Limits }>('/admin/limits', { workspaceName }, { signal })).limits,
  })
export const setLimits = (workspaceName: string, given: Record<string, number | null>) =>
  call('PUT', api('/admin/limits'), { workspaceName, limits: given })

/** Those of all workspaces together. */
export const organizationLimits = queryOptions({
  queryKey: ['admin', 'limits'],
  queryFn: async ({ signal }) =>
    (await read<{ limits: Limits }>('/admin/limits', { organization: 'true' }, { signal })).limits,
})
export const setOrganizationLimits = (given: Record<string, number | null>) =>
  call('PUT', api('/admin/limits'), { organization: true, limits: given })

export type Used = { name: string; used: number; max: number | null }

/** What a workspace, and its organization, use of their limits. */
export const tenantUsage = (workspaceName: string) =>
  queryOptions({
    queryKey: ['usage', workspaceName],
    queryFn: ({ signal }) =>
      read<{ workspace: Used[]; organization: Used[] }>('/workspace/usage', { workspaceName }, { signal }),
  })
