import { z } from 'zod'
import { flag, object, optional, text } from '../../http/body/fields.ts'
import { HttpError, restrictedAccount } from '../../http/errors.ts'
import { requireWholeKey } from '../../http/key-scope.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import { administer } from '../../store/postgres/accounts/audit.ts'
import { shownKinds } from '../../store/postgres/accounts/users.ts'
import { roles } from '../../store/postgres/accounts/visibility.ts'
import {
  deleteMember,
  findRole,
  insertWorkspace,
  listMembers,
  listWorkspaces,
  setRole,
} from '../../store/postgres/accounts/workspaces.ts'
import { type Database, isUniqueViolation, type Queries } from '../../store/postgres/database.ts'
import type { Access } from '../access.ts'

const topic = 'Workspaces'

export const workspaceName = text(100, 1)

export const roleField = z.enum(roles, { error: () => `must be one of ${roles.join(', ')}` })

/** The names of the workspaces that a caller may use, or find its only project in. */
export async function listUsable(queries: Queries, { viewerId, place }: Caller): Promise<string[]> {
  if (place?.projectName !== undefined) return [place.workspaceName]
  return (await listWorkspaces(queries, viewerId)).map((it) => it.name)
}

/** Of these, the names of those where the caller is an editor at least. */
export async function listWritable(queries: Queries, { viewerId, place, scope }: Caller): Promise<string[]> {
  if (place?.projectName !== undefined) return scope === 'read' ? [] : [place.workspaceName]
  return (await listWorkspaces(queries, viewerId)).filter((it) => it.isWritable).map((it) => it.name)
}

export function createWorkspaceRoutes({ database, access }: { database: Database; access: Access }): Route[] {
  return [
    route({
      method: 'POST',
      path: '/write/workspace/new',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Creates a workspace; the caller becomes its owner.',
      body: object({ name: workspaceName, plan: optional(text(100)) }),
      answer: z.object({ msg: z.string(), workspace_name: z.string(), workspace_id: z.uuid() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        requireWholeKey(caller)
        // The new workspace would not be in `authorizedWorkspaces`.
        if (caller.kind === 'restricted service') throw restrictedAccount()
        try {
          const workspace = await insertWorkspace(database, {
            organizationId: caller.organizationId,
            userId: caller.userId,
            name: body.name,
            plan: body.plan,
          })
          return { msg: 'Workspace created', workspace_name: workspace.name, workspace_id: workspace.id }
        } catch (error) {
          if (!isUniqueViolation(error)) throw error
          throw new HttpError(
            'workspaceExists',
            `name: there is a workspace "${body.name}" already; choose another name.`,
          )
        }
      },
    }),

    route({
      method: 'POST',
      path: '/write/add-workspace-member',
      charge: 'call',
      permission: 'caller',
      topic,
      summary:
        'Adds a user of the organization to a workspace, or changes the role of a member: a viewer reads, an editor writes, ' +
        'an owner manages the workspace too. Without `role`, `admin: true` makes an owner, and `admin: false` an editor of ' +
        'somebody who is not a member yet. For owners of the workspace and for admins.',
      body: object({
        userName: optional(text(200, 1)),
        userEmail: optional(text(200, 1)),
        workspaceName,
        admin: optional(flag),
        role: optional(roleField),
      }),
      answer: z.object({ msg: z.string() }),
      shape: 'envelope',
      async handle({ body: { admin, role, ...body }, caller }) {
        const workspace = await access.managedWorkspace(caller, body.workspaceName)
        const userName = body.userName ?? body.userEmail
        if (userName === undefined) throw new HttpError('badRequest', 'userName: is missing')
        const { organizationId } = caller
        const named = { workspaceId: workspace.id, organizationId, userName }
        const wasSet = await administer(database, caller, async (queries, note) => {
          const known = await findRole(queries, named)
          const given = role ?? (admin ? 'owner' : (known ?? 'editor'))
          const outcome = await setRole(queries, { ...named, role: given })
          if (outcome === 'lastOwner') throw lastOwner(userName)
          if (outcome === 'unknown') return false
          await note('workspace-member.set', userName, { workspaceName: workspace.name, role: given })
          return true
        })
        if (!wasSet) throw new HttpError('userUnknown', `userName: your organization has no user "${userName}".`)
        return { msg: 'Saved' }
      },
    }),

    route({
      method: 'POST',
      path: '/write/remove-workspace-member',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Removes a person from a workspace, which keeps at least one owner. For its owners and for admins.',
      body: object({ userName: text(200, 1), workspaceName }),
      answer: z.object({ msg: z.string() }),
      shape: 'envelope',
      async handle({ body: { userName, workspaceName }, caller }) {
        const workspace = await access.managedWorkspace(caller, workspaceName)
        const outcome = await administer(database, caller, async (queries, note) => {
          const outcome = await deleteMember(queries, { workspaceId: workspace.id, userName })
          if (outcome === 'done') await note('workspace-member.removed', userName, { workspaceName: workspace.name })
          return outcome
        })
        if (outcome === 'unknown')
          throw new HttpError('userUnknown', `userName: no person "${userName}" is a member of "${workspace.name}".`)
        if (outcome === 'lastOwner') throw lastOwner(userName)
        return { msg: 'Removed' }
      },
    }),

    route({
      method: 'GET',
      path: '/workspaces/members',
      permission: 'caller',
      topic,
      summary: 'Lists the people and restricted service accounts of a workspace that the caller may use, owners first.',
      query: object({ workspaceName }),
      answer: z.object({
        members: z.array(
          z.object({
            userName: z.string(),
            kind: z.enum(['user', 'service account']),
            role: z.enum(roles),
            isOwner: z.boolean(),
          }),
        ),
        mayManage: z.boolean().describe('true when the caller may add and remove members, and change their roles'),
      }),
      shape: 'plain',
      async handle({ query, caller }) {
        const workspace = await access.workspace(caller, query.workspaceName)
        const members = await listMembers(database, workspace.id)
        return {
          members: members.map((it) => ({ ...it, kind: shownKinds[it.kind], isOwner: it.role === 'owner' })),
          mayManage: await access.manages(caller, workspace.id),
        }
      },
    }),

    route({
      method: 'GET',
      path: '/workspaces',
      permission: 'caller',
      topic,
      summary: 'Lists the workspaces that the caller may use.',
      answer: z.object({ workspaceNames: z.array(z.string()) }),
      shape: 'plain',
      async handle({ caller }) {
        return { workspaceNames: await listUsable(database, caller) }
      },
    }),

    route({
      method: 'GET',
      path: '/account-details',
      permission: 'caller',
      topic,
      summary: 'Reads the user name of the key and the default workspace.',
      answer: z.object({ userName: z.string(), defaultWorkspaceName: z.string().nullable() }),
      shape: 'plain',
      handle({ caller }) {
        return { userName: caller.userName, defaultWorkspaceName: caller.defaultWorkspaceName }
      },
    }),
  ]
}

const lastOwner = (userName: string) =>
  new HttpError('lastOwner', `userName: "${userName}" is the only owner; make somebody else one first.`)
