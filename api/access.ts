import { Refusal } from '../http/errors.ts'
import type { Caller } from '../http/route.ts'
import type { Queries } from '../store/postgres/database.ts'
import { type Experiment, findExperiment } from '../store/postgres/experiments.ts'
import { findProject, type Project } from '../store/postgres/projects.ts'
import { findWorkspace, type Workspace } from '../store/postgres/workspaces.ts'

/**
 * What a caller may see: the workspaces it is a member of, and all that is in them. What is foreign answers the same as
 * what is not there.
 */
export function createAccess(queries: Queries) {
  return {
    async workspace(caller: Caller, name: string): Promise<Workspace> {
      const found = await findWorkspace(queries, caller.userId, name)
      if (!found) throw new Refusal('workspaceUnknown', `There is no workspace "${name}" that this key may use.`)
      return found
    },

    async project(caller: Caller, query: ProjectQuery): Promise<Project> {
      const found = await findProject(queries, caller.userId, toReference(query))
      if (!found) throw new Refusal('projectUnknown', 'There is no such project that this key may use.')
      return found
    },

    async experiment(caller: Caller, key: string): Promise<Experiment> {
      const found = await findExperiment(queries, caller.userId, key)
      if (!found)
        throw new Refusal('experimentUnknown', `There is no experiment ${key.slice(0, 60)} that this key may use.`)
      return found
    },
  }
}

export type Access = ReturnType<typeof createAccess>

export type ProjectQuery = { projectId?: string; workspaceName?: string; projectName?: string }

/** Exactly one of the two ways to name a project. */
function toReference({ projectId, workspaceName, projectName }: ProjectQuery) {
  if (projectId !== undefined && workspaceName === undefined && projectName === undefined) return { projectId }
  if (projectId === undefined && workspaceName !== undefined && projectName !== undefined) {
    return { workspaceName, projectName }
  }
  if (projectId === undefined && workspaceName !== undefined) {
    throw new Refusal(
      'projectNameMissing',
      'projectName: is missing (send projectId alone, or workspaceName with projectName)',
    )
  }
  throw new Refusal('badRequest', 'Name the project by projectId alone, or by workspaceName together with projectName.')
}
