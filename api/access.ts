import { HttpError, restrictedAccount, unknownExperiment } from '../http/errors.ts'
import type { Caller } from '../http/route.ts'
import { isPlaceWithheld, type Place } from '../store/postgres/accounts/restrictions.ts'
import type { Viewer } from '../store/postgres/accounts/visibility.ts'
import {
  findManagedWorkspace,
  findWorkspace,
  managesWorkspace,
  type Workspace,
} from '../store/postgres/accounts/workspaces.ts'
import type { Queries } from '../store/postgres/database.ts'
import { type Experiment, findExperiment } from '../store/postgres/experiments/experiments.ts'
import { findProject, type Project, type ProjectReference } from '../store/postgres/projects/projects.ts'

/**
 * Finds what a caller may see or change; `store/postgres/accounts/visibility.ts` has the rules. A foreign thing gets the same
 * answer as an absent one. A thing that is read-only for the caller gets its own error.
 */
export function createAccess(queries: Queries) {
  async function project(caller: Caller, query: ProjectQuery): Promise<Project> {
    const reference = toReference(query)
    const found = await findProject(queries, toViewer(caller), reference)
    if (found) return found
    await refuseWithheld(
      queries,
      caller,
      'projectId' in reference ? 'projectId' : 'workspaceName',
      'projectId' in reference ? reference.projectId : reference.workspaceName,
    )
    throw unknownProject()
  }

  async function experiment(caller: Caller, key: string): Promise<Experiment> {
    const found = await findExperiment(queries, toViewer(caller), key)
    if (found) return found
    await refuseWithheld(queries, caller, 'experimentKey', key)
    throw unknownExperiment(key)
  }

  return {
    /** A workspace that the caller may use. */
    async workspace(caller: Caller, name: string): Promise<Workspace> {
      const found = await findWorkspace(queries, caller.userId, name)
      if (found) return found
      await refuseWithheld(queries, caller, 'workspaceName', name)
      throw new HttpError('workspaceUnknown', `There is no workspace "${name}" that this key may use.`)
    },

    /** A workspace that the caller manages. */
    async managedWorkspace(caller: Caller, name: string): Promise<Pick<Workspace, 'id' | 'name'>> {
      const found = await findManagedWorkspace(queries, caller.userId, name)
      if (found?.mayManage) return found
      if (found)
        throw new HttpError('ownerOnly', `Only an owner of the workspace "${found.name}", or an admin, may do this.`)
      await refuseWithheld(queries, caller, 'workspaceName', name)
      throw new HttpError('workspaceUnknown', `There is no workspace "${name}" that this key may use.`)
    },

    /** True when the caller manages the workspace. */
    manages: (caller: Caller, workspaceId: string) => managesWorkspace(queries, caller.userId, workspaceId),

    /** A project that the caller may read. */
    project,

    /** A project that the caller may change. */
    async writableProject(caller: Caller, query: ProjectQuery): Promise<Project> {
      const found = await project(caller, query)
      if (found.isWritable) return found
      await refuseWithheld(queries, caller, 'projectId', found.projectId)
      throw new HttpError('projectReadOnly', 'This key may read the project, but not change it.')
    },

    /** An experiment that the caller may read. */
    experiment,

    /** An experiment that the caller may write to. */
    async writableExperiment(caller: Caller, key: string): Promise<Experiment> {
      const found = await experiment(caller, key)
      if (found.isWritable) return found
      await refuseWithheld(queries, caller, 'experimentKey', key)
      throw new HttpError('experimentReadOnly', 'This key may read the experiment, but not write to it.')
    },
  }
}

/**
 * Call this before an answer that says absent or read-only. A restricted service account gets its own error for things of its
 * organization outside its workspaces; it learns nothing about other organizations.
 *
 * @throws HttpError `accountRestricted`
 */
export async function refuseWithheld(
  queries: Queries,
  { kind, userId }: Caller,
  named: Place['kind'],
  value: string,
): Promise<void> {
  if (kind !== 'restricted service') return
  if (await isPlaceWithheld(queries, userId, { kind: named, value })) throw restrictedAccount()
}

export type Access = ReturnType<typeof createAccess>

/** The same answer for an absent, a deleted and a foreign project. */
export function unknownProject(): HttpError {
  return new HttpError('projectUnknown', 'There is no such project that this key may use.')
}

export type ProjectQuery = { projectId?: string; workspaceName?: string; projectName?: string }

export function toViewer({ userId, organizationId, shareCode }: Caller): Viewer {
  return { userId, organizationId, shareCode: shareCode ?? null }
}

/** A project is named by its id, or by workspace and name, never by both. */
function toReference({ projectId, workspaceName, projectName }: ProjectQuery): ProjectReference {
  if (projectId !== undefined && workspaceName === undefined && projectName === undefined) return { projectId }
  if (projectId === undefined && workspaceName !== undefined && projectName !== undefined) {
    return { workspaceName, projectName }
  }
  if (projectId === undefined && workspaceName !== undefined) {
    throw new HttpError(
      'projectNameMissing',
      'projectName: is missing (send projectId alone, or workspaceName with projectName)',
    )
  }
  throw new HttpError(
    'badRequest',
    'Name the project by projectId alone, or by workspaceName together with projectName.',
  )
}
