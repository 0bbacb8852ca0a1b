import { z } from 'zod'
import { object, text } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import type { Queries } from '../../store/postgres/database.ts'
import type { Access } from '../access.ts'
import { listUsable } from '../accounts/workspaces.ts'
import { common } from './workspace.ts'

/** What newer clients ask of a server before they use what it has. */

const workspace = z.object({ name: z.string() })

/** @param queries reads the workspaces */
export function createMlflowServerRoutes({ queries, access }: { queries: Queries; access: Access }): Route[] {
  return [
    route({
      ...common,
      method: 'GET',
      path: '/api/3.0/mlflow/server-info',
      summary: 'What the server has beyond the interface.',
      answer: z.object({
        store_type: z.string(),
        workspaces_enabled: z.boolean(),
        trace_archival_enabled: z.boolean(),
        multipart_uploads_enabled: z.boolean(),
        multipart_downloads_enabled: z.boolean(),
      }),
      handle: () => ({
        store_type: 'svc',
        workspaces_enabled: true,
        trace_archival_enabled: false,
        multipart_uploads_enabled: false,
        multipart_downloads_enabled: false,
      }),
    }),

    route({
      ...common,
      method: 'GET',
      path: '/api/3.0/mlflow/workspaces',
      summary: 'Lists the workspaces of the caller.',
      answer: z.object({ workspaces: z.array(workspace) }),
      async handle({ caller }) {
        return { workspaces: (await listUsable(queries, caller)).map((name) => ({ name })) }
      },
    }),

    route({
      ...common,
      method: 'GET',
      path: '/api/3.0/mlflow/workspaces/{workspace_name}',
      summary: 'Reads a workspace.',
      params: object({ workspace_name: text(1_000, 1) }),
      answer: z.object({ workspace }),
      async handle({ caller, params }) {
        const { name } = await access.namedWorkspace(caller, params.workspace_name)
        return { workspace: { name } }
      },
    }),
  ]
}
