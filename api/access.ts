import { HttpError, needsEditor, unknownExperiment, withheldFrom } from '../http/errors.ts'
import { wrongScope } from '../http/key-scope.ts'
import type { Caller } from '../http/route.ts'
import type { TenantLimits } from '../store/limits.ts'
import { findTenantOf, findTenantUsage, type TenantOf } from '../store/postgres/accounts/limits.ts'
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
import type { Tenants } from '../throttle/tenants.ts'

/**
 * Finds what a caller may see or change; `store/postgres/accounts/visibility.ts` has the rules. A foreign thing gets the same
 * answer as an absent one. A thing that is read-only for the caller gets its own error.
 */
export function createAccess(queries: Queries, tenants: Pick<Tenants, 'note'>, perTenant: TenantLimits) {
  async function project(caller: Caller, query: ProjectQuery): Promise<Project> {
    const reference = toReference(query)
    const found = await findProject(queries, toViewer(caller), reference)
    if (found) {
      tenants.note(found.workspaceName)
      return found
    }
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
    if (found) {
      tenants.note(found.workspaceName)
      return found
    }
    await refuseWithheld(queries, caller, 'experimentKey', key)
    throw unknownExperiment(key)
  }

  /** A workspace that the caller may use: what is of it may be read. */
  async function workspace(caller: Caller, name: string): Promise<Workspace> {
    const found = await findWorkspace(queries, caller.viewerId, name)
    if (found) {
      tenants.note(found.name)
      return found
    }
    await refuseWithheld(queries, caller, 'workspaceName', name)
    throw unknownWorkspace(name)
  }

  /** A workspace where the caller may make projects and models, and change them. */
  async function writableWorkspace(caller: Caller, name: string): Promise<Workspace> {
    const found = await workspace(caller, name)
    if (found.isWritable) return found
    throw needsEditor('workspaceReadOnly', 'workspace', found.name)
  }

  /** A project that the caller may change. */
  async function writableProject(caller: Caller, query: ProjectQuery): Promise<Project> {
    const found = await project(caller, query)
    if (found.isWritable) return found
    await refuseWithheld(queries, caller, 'projectId', found.projectId)
    throw needsEditor('projectReadOnly', 'project', found.workspaceName)
  }

  return {
    workspace,
    writableWorkspace,

    /** A workspace to find projects in by name: also that of the only project that a key is for. */
    async namedWorkspace(caller: Caller, name: string): Promise<Pick<Workspace, 'id' | 'name'>> {
      const { place } = caller
      if (place?.projectName === undefined || place.workspaceName !== name) return await workspace(caller, name)
      tenants.note(name)
      return { id: place.workspaceId, name }
    },

    /** The workspace of a project to log to. The project need not be there, unless the key is for one only. */
    async workspaceOfNewRun(
      caller: Caller,
      workspaceName: string,
      projectName: string,
    ): Promise<Pick<Workspace, 'id' | 'name'>> {
      const { place } = caller
      if (place?.projectName === undefined) return await writableWorkspace(caller, workspaceName)
      if (place.workspaceName !== workspaceName || place.projectName !== projectName) throw withheldFrom({ place })
      await writableProject(caller, { workspaceName, projectName })
      return { id: place.workspaceId, name: place.workspaceName }
    },

    /**
     * Checks that a workspace has room for more experiments. Those that are made at the same moment may exceed its limit by a few.
     *
     * @throws HttpError `experimentsFull`
     */
    async roomForExperiments(of: TenantOf, more = 1): Promise<void> {
      const { name, organizationId, workspace, organization } = await findTenantOf(queries, of)
      const check = async (whose: string, workspaceName: string | null, max: number | undefined) => {
        if (max === undefined) return
        const { experiments } = await findTenantUsage(queries, { organizationId, workspaceName })
        if (experiments + more <= max) return
        throw new HttpError(
          'experimentsFull',
          `${whose} has ${experiments} experiments; the limit is ${max} (experimentsMax): delete some, or ask an admin for more.`,
        )
      }
      await check(`The workspace "${name}"`, name, workspace.experimentsMax ?? perTenant.workspace.experimentsMax)
      await check('This organization', null, organization.experimentsMax ?? perTenant.organization.experimentsMax)
    },

    /** A workspace that the caller manages. */
    async managedWorkspace(caller: Caller, name: string): Promise<Pick<Workspace, 'id' | 'name'>> {
      const found = await findManagedWorkspace(queries, caller.viewerId, name)
      if (found?.mayManage) {
        tenants.note(found.name)
        return found
      }
      if (found) {
        if (caller.scope !== 'all') throw wrongScope(caller.scope, 'all')
        throw new HttpError('ownerOnly', `Only an owner of the workspace "${found.name}", or an admin, may do this.`)
      }
      await refuseWithheld(queries, caller, 'workspaceName', name)
      throw unknownWorkspace(name)
    },

    /** True when the caller manages the workspace. */
    manages: (caller: Caller, workspaceId: string) => managesWorkspace(queries, caller.viewerId, workspaceId),

    /** A project that the caller may read. */
    project,

    writableProject,

    /** An experiment that the caller may read. */
    experiment,

    /** An experiment that the caller may write to. */
    async writableExperiment(caller: Caller, key: string): Promise<Experiment> {
      const found = await experiment(caller, key)
      if (found.isWritable) return found
      await refuseWithheld(queries, caller, 'experimentKey', key)
      throw needsEditor('experimentReadOnly', 'experiment', found.workspaceName)
    },
  }
}

/**
 * Call this before an answer that says absent or read-only. A restricted service account gets its own error for things of its
 * organization outside its workspaces, and a key of one place for what its user may use elsewhere; neither learns anything
 * about other organizations.
 *
 * @throws HttpError `accountRestricted`, `keyRestricted`
 */
export async function refuseWithheld(
  queries: Queries,
  { kind, viewerId, place }: Caller,
  named: Place['kind'],
  value: string,
): Promise<void> {
  if (kind !== 'restricted service' && place === null) return
  if (!(await isPlaceWithheld(queries, viewerId, { kind: named, value }))) return
  throw withheldFrom({ place })
}

export type Access = ReturnType<typeof createAccess>

/** For what belongs to a workspace, though a run makes it. @throws HttpError `keyRestricted` for the key of one project */
export function requireWholeWorkspace({ place }: Caller) {
  if (place?.projectName !== undefined) throw withheldFrom({ place })
}

/** The same answer for an absent and a foreign workspace. */
function unknownWorkspace(name: string): HttpError {
  return new HttpError('workspaceUnknown', `There is no workspace "${name}" that this key may use.`)
}

/** The same answer for an absent, a deleted and a foreign project. */
export function unknownProject(): HttpError {
  return new HttpError('projectUnknown', 'There is no such project that this key may use.')
}

export type ProjectQuery = { projectId?: string; workspaceName?: string; projectName?: string }

export function toViewer({ viewerId, organizationId, shareCode }: Caller): Viewer {
  return { viewerId, organizationId, shareCode: shareCode ?? null }
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
