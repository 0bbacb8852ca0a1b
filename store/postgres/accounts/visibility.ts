/**
 * Who may see and change what, in one place. The caller is `$1` (user), `$2` (organization) and `$3` (share code), each
 * null when there is none:
 *
 * | | reads a project and its contents | writes to it | manages the workspace |
 * |---|---|---|---|
 * | owner of the workspace | yes | yes | yes |
 * | member of the workspace | yes | yes | no |
 * | service account of the organization | yes | yes | no |
 * | service account restricted to other workspaces | no: the error names the restriction | no | no |
 * | any other user of the organization | if the project is public | no | no |
 * | any caller with a share code | the project of the code | no | no |
 * | any other caller | no: it looks absent | no | no |
 *
 * A restricted service account is a member of the workspaces it is restricted to. An experiment is also visible to callers
 * who may read a project that it is symlinked into. Artifacts and registered models belong to a workspace, not to a
 * project: members of the workspace read and write them, the organization reads the public ones, and share codes do not
 * apply.
 *
 * Webhooks of a workspace, and their delivery log, are for those who manage it: its owners, and the admins of its
 * organization.
 */
export type Viewer = { userId: string | null; organizationId: string | null; shareCode: string | null }

/** What kind of user a key belongs to. */
export type UserKind = 'person' | 'global service' | 'restricted service'

/** The values of `$1` to `$3`. */
export const toViewerValues = ({ userId, organizationId, shareCode }: Viewer) => [userId, organizationId, shareCode]

const isOfKind = (kind: UserKind, workspace: string) =>
  `EXISTS (SELECT 1 FROM users s WHERE s.id = $1 AND s.kind = '${kind}'
    AND s.organization_id = ${workspace}.organization_id)`

/** A condition on a workspace: the caller may use it. */
export const mayUse = (workspace: string) =>
  `(EXISTS (SELECT 1 FROM workspace_members m WHERE m.workspace_id = ${workspace}.id AND m.user_id = $1)
    OR ${isOfKind('global service', workspace)})`

/** A condition on a workspace: the caller owns it, or is an admin of its organization. */
export const mayManage = (workspace: string) =>
  `(EXISTS (SELECT 1 FROM workspace_members m WHERE m.workspace_id = ${workspace}.id AND m.user_id = $1 AND m.is_owner)
    OR EXISTS (SELECT 1 FROM users s WHERE s.id = $1 AND s.is_admin AND s.organization_id = ${workspace}.organization_id))`

/** A condition on a workspace: it is in the caller's organization, but the caller is restricted to others. */
export const isWithheld = (workspace: string) =>
  `(${isOfKind('restricted service', workspace)} AND NOT ${mayUse(workspace)})`

/** A condition on a project and its workspace, given by their names in the query. */
export const mayReadProject = (project: string, workspace: string) =>
  `(${mayUse(workspace)}
    OR (${project}.is_public AND ${workspace}.organization_id = $2 AND NOT ${isWithheld(workspace)})
    OR EXISTS (SELECT 1 FROM project_share_links s WHERE s.project_id = ${project}.id AND s.code = $3))`

/** A condition on an experiment, its project and its workspace. */
export const mayReadExperiment = (experiment: string, project: string, workspace: string) =>
  `(${mayReadProject(project, workspace)}
    OR EXISTS (SELECT 1 FROM experiment_symlinks l JOIN projects lp ON lp.id = l.project_id
      JOIN workspaces lw ON lw.id = lp.workspace_id
      WHERE l.experiment_id = ${experiment}.id AND ${mayReadProject('lp', 'lw')}))`

export const mayWrite = (workspace: string) => mayUse(workspace)

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
    OR (${thing}.is_public AND ${workspace}.organization_id = $2 AND NOT ${isWithheld(workspace)}))`
