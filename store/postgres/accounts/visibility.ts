/**
 * Who may see and change what, in one place. The caller is `$1` (viewer), `$2` (organization) and `$3` (share code), each
 * null when there is none. The viewer is a user, or a key that may do less than its user (`Account.viewerId`):
 *
 * | | reads a project and its contents | reads what is of the workspace | writes | manages the workspace |
 * |---|---|---|---|---|
 * | owner of the workspace | yes | yes | yes | yes |
 * | editor of the workspace | yes | yes | yes | no |
 * | viewer of the workspace | yes | yes | no: the error names the role | no |
 * | auditor of the organization | yes | yes | no | no |
 * | admin of the organization | no | no | no | yes |
 * | service account of the organization | by its role | by its role | by its role | by its role |
 * | service account restricted to other workspaces | no: the error names the restriction | no | no | no |
 * | any other user of the organization | if the project is public | no | no | no |
 * | any caller with a share code | the project of the code | no | no | no |
 * | any other caller | no: it looks absent | no | no | no |
 *
 * A key of scope `read` makes its user a viewer everywhere, one of scope `write` an editor at most. A key of a workspace has
 * the role of its user there, and none elsewhere; a key of a project reaches that project, and nothing else of the workspace
 * (functions `key_role` and `key_role_in_project` of the database).
 *
 * A restricted service account has roles in the workspaces it is restricted to. An experiment is also visible to callers
 * who may read a project that it is symlinked into. Artifacts and registered models belong to a workspace, not to a
 * project: those with a role in the workspace read them, its editors write them, the organization reads the public ones, and
 * share codes do not apply.
 *
 * Webhooks of a workspace, and their delivery log, are for those who manage it: its owners, and the admins of its
 * organization.
 */
export type Viewer = { viewerId: string | null; organizationId: string | null; shareCode: string | null }

/** What kind of user a key belongs to. */
export type UserKind = 'person' | 'global service' | 'restricted service'

/** The roles in a workspace, each with the rights of the one before. */
export const roles = ['viewer', 'editor', 'owner'] as const
export type Role = (typeof roles)[number]

/** What a key may do of what its user may, each with what the one before may. */

export const keyScopes = ['read', 'write', 'all'] as const
export type KeyScope = (typeof keyScopes)[number]

/** Why a caller may not write where it knows of something: it lacks the role, or is restricted to other places. */
export type Refusal = 'role' | 'withheld'

/** The values of `$1` to `$3`. */
export const toViewerValues = ({ viewerId, organizationId, shareCode }: Viewer) => [viewerId, organizationId, shareCode]

/** The role of a user for a whole organization that the previous version made. */
const serviceRole = `coalesce(s.workspace_role, 'editor')`

const isUser = (workspace: string, condition: string) =>
  `EXISTS (SELECT 1 FROM users s WHERE s.id = $1 AND ${condition}
    AND s.organization_id = ${workspace}.organization_id)`

/** A condition on a workspace: the caller has this role, or a higher one. */
const hasRole = (role: Role, workspace: string) =>
  `(EXISTS (SELECT 1 FROM workspace_members m
      WHERE m.workspace_id = ${workspace}.id AND m.user_id = $1 AND m.role >= '${role}')
    OR ${isUser(workspace, `((s.kind = 'global service' AND ${serviceRole} >= '${role}')${role === 'viewer' ? ' OR s.is_auditor' : ''})`)}
    OR coalesce(key_role($1, ${workspace}.id) >= '${role}', false))`

const hasRoleInProject = (role: Role, project: string, workspace: string) =>
  `(${hasRole(role, workspace)} OR coalesce(key_role_in_project($1, ${project}.id) >= '${role}', false))`

/** A condition on a workspace: the caller may read what is of it, such as its monitored models and its members. */
export const mayUse = (workspace: string) => hasRole('viewer', workspace)

/** A condition on a workspace: the caller may make projects there, register models and change what is monitored. */
export const mayWrite = (workspace: string) => hasRole('editor', workspace)

/** A condition on a project and its workspace: the caller may write to it. */
export const mayWriteProject = (project: string, workspace: string) => hasRoleInProject('editor', project, workspace)

/** A condition on a workspace: the caller owns it, or is an admin of its organization. */
export const mayManage = (workspace: string) => `(${hasRole('owner', workspace)} OR ${isUser(workspace, 's.is_admin')})`

const isWithheldFromUser = (workspace: string) =>
  `(${isUser(workspace, "s.kind = 'restricted service'")} AND NOT ${mayUse(workspace)})`

/** A condition on a workspace: the caller, or its key, is restricted to others, and may know that there is this one. */
export const isWithheld = (workspace: string) =>
  `(${isWithheldFromUser(workspace)} OR coalesce(is_withheld_from_key($1, ${workspace}.id), false))`

/** A condition on a workspace of the caller's organization: the caller, or its key, is restricted to others. */
const isClosed = (workspace: string) =>
  `(${isWithheldFromUser(workspace)} OR coalesce(is_closed_to_key($1, ${workspace}.id), false))`

/** A condition on a project and its workspace: the caller has a role that reads it, which a share code or being public are not. */
export const hasProject = (project: string, workspace: string) => hasRoleInProject('viewer', project, workspace)

/** A condition on a project and its workspace, given by their names in the query. */
export const mayReadProject = (project: string, workspace: string) =>
  `(${hasProject(project, workspace)}
    OR (${project}.is_public AND ${workspace}.organization_id = $2 AND NOT ${isClosed(workspace)})
    OR EXISTS (SELECT 1 FROM project_share_links s WHERE s.project_id = ${project}.id AND s.code = $3))`

/** A condition on an experiment, its project and its workspace. */
export const mayReadExperiment = (experiment: string, project: string, workspace: string) =>
  `(${mayReadProject(project, workspace)}
    OR EXISTS (SELECT 1 FROM experiment_symlinks l JOIN projects lp ON lp.id = l.project_id
      JOIN workspaces lw ON lw.id = lp.workspace_id
      WHERE l.experiment_id = ${experiment}.id AND ${mayReadProject('lp', 'lw')}))`

/** A condition on an experiment: it is in a project, or symlinked into it. */
export const isShownIn = (experiment: string, projectId: string) =>
  `(${experiment}.project_id = ${projectId} OR EXISTS (SELECT 1 FROM experiment_symlinks l
    WHERE l.experiment_id = ${experiment}.id AND l.project_id = ${projectId}))`

/** The same, where all of a project is read: the symlinks are looked up once. */
export const isShownInList = (experiment: string, projectId: string) =>
  `(${experiment}.project_id = ${projectId}
    OR ${experiment}.id = ANY(ARRAY(SELECT experiment_id FROM experiment_symlinks WHERE project_id = ${projectId})))`

/** A condition on an artifact or a registered model and its workspace. Uses `$1` and `$2` only. */
export const mayReadOfWorkspace = (thing: string, workspace: string) =>
  `(${mayUse(workspace)}
    OR (${thing}.is_public AND ${workspace}.organization_id = $2 AND NOT ${isClosed(workspace)}))`
