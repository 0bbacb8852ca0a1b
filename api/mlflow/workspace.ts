import type { IncomingHttpHeaders } from 'node:http'
import { HttpError } from '../../http/errors.ts'
import { type Caller, mlflowTopic } from '../../http/route.ts'
import type { Workspace } from '../../store/postgres/accounts/workspaces.ts'
import type { Access } from '../access.ts'

/**
 * Clients of MLflow, unchanged. An experiment of MLflow is a project, a run is an experiment, a logged model is a model of an
 * experiment. A call is about the workspace that the client names (`MLFLOW_WORKSPACE`), else about the caller's default one.
 */

export const mlflow = '/api/2.0/mlflow'

/** What all routes have in common. */
export const common = { atRoot: true, permission: 'caller', topic: mlflowTopic, shape: 'plain' } as const

const header = 'x-mlflow-workspace'

/** The workspace that a call is about. @throws HttpError `workspaceUnknown` */
export async function findWorkspaceOf(
  access: Access,
  { caller, headers }: { caller: Caller; headers: IncomingHttpHeaders },
): Promise<Pick<Workspace, 'id' | 'name'>> {
  const named = headers[header]
  // Newer clients say `default` when nothing was chosen.
  const name = typeof named === 'string' && named !== '' && named !== 'default' ? named : caller.defaultWorkspaceName
  if (name) return await access.namedWorkspace(caller, name)
  if (named === 'default') return await access.namedWorkspace(caller, named)
  throw new HttpError('workspaceUnknown', 'This key has no default workspace: set MLFLOW_WORKSPACE to the name of one.')
}
