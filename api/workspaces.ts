import { z } from 'zod'
import { Refusal } from '../http/errors.ts'
import { object, optional, text } from '../http/fields.ts'
import { type Route, route } from '../http/route.ts'
import { type Database, isUniqueViolation } from '../store/postgres/database.ts'
import { insertWorkspace, listWorkspaces } from '../store/postgres/workspaces.ts'

const topic = 'Workspaces'

export const workspaceName = text(100, 1)

export function createWorkspaceRoutes({ database }: { database: Database }): Route[] {
  return [
    route({
      method: 'POST',
      path: '/write/workspace/new',
      permission: 'caller',
      topic,
      summary: 'Makes a workspace whose owner is the caller.',
      body: object({ name: workspaceName, plan: optional(text(100)) }),
      answer: z.object({ msg: z.string(), workspace_name: z.string(), workspace_id: z.uuid() }),
      shape: 'envelope',
      async handle({ body, caller }) {
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
          throw new Refusal(
            'workspaceExists',
            `name: there is a workspace "${body.name}" already; choose another name.`,
          )
        }
      },
    }),

    route({
      method: 'GET',
      path: '/workspaces',
      permission: 'caller',
      topic,
      summary: 'Lists the workspaces that the caller is a member of.',
      answer: z.object({ workspaceNames: z.array(z.string()) }),
      shape: 'plain',
      async handle({ caller }) {
        const workspaces = await listWorkspaces(database, caller.userId)
        return { workspaceNames: workspaces.map((it) => it.name) }
      },
    }),

    route({
      method: 'GET',
      path: '/account-details',
      permission: 'caller',
      topic,
      summary: 'Tells whose key it is, and the workspace used when none is named.',
      answer: z.object({ userName: z.string(), defaultWorkspaceName: z.string().nullable() }),
      shape: 'plain',
      handle({ caller }) {
        return { userName: caller.userName, defaultWorkspaceName: caller.defaultWorkspaceName }
      },
    }),
  ]
}
