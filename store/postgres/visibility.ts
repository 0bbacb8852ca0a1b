/**
 * Who may see and change what, in one place. Whoever calls is `$1` (user), `$2` (organization) and `$3` (share code), each
 * null when there is none:
 *
 * | | reads a project and what is in it | writes to it | manages the workspace |
 * |---|---|---|---|
 * | owner of the workspace | yes | yes | yes |
 * | member of the workspace | yes | yes | no |
 * | anyone of the organization | when the project is public | no | no |
 * | whoever has a share code | the project it belongs to | no | no |
 * | anyone else | no: it looks as if it were not there | no | no |
 *
 * An experiment is also seen by whoever may read a project that it was symlinked into. An artifact and a registered model
 * belong to a workspace, not to a project: its members read and write them, and anyone of the organization reads them when
 * they are public; no share code opens them.
 */
export type Viewer = { userId: string | null; organizationId: string | null; shareCode: string | null }

/** The values of `$1` to `$3`. */
export const toViewerValues = ({ userId, organizationId, shareCode }: Viewer) => [userId, organizationId, shareCode]

const isMember = (workspace: string) =>
  `EXISTS (SELECT 1 FROM workspace_members m WHERE m.workspace_id = ${workspace}.id AND m.user_id = $1)`

/** A condition on a project and its workspace, given by their names in the query. */
export const mayReadProject = (project: string, workspace: string) =>
  `(${isMember(workspace)}
    OR (${project}.is_public AND ${workspace}.organization_id = $2)
    OR EXISTS (SELECT 1 FROM project_share_links s WHERE s.project_id = ${project}.id AND s.code = $3))`

/** A condition on an experiment, its project and its workspace. */
export const mayReadExperiment = (experiment: string, project: string, workspace: string) =>
  `(${mayReadProject(project, workspace)}
    OR EXISTS (SELECT 1 FROM experiment_symlinks l JOIN projects lp ON lp.id = l.project_id
      JOIN workspaces lw ON lw.id = lp.workspace_id
      WHERE l.experiment_id = ${experiment}.id AND ${mayReadProject('lp', 'lw')}))`

export const mayWrite = isMember

/** A condition on an experiment: that it is shown in a project, as one of it or by a symlink. */
export const isShownIn = (experiment: string, projectId: string) =>
  `(${experiment}.project_id = ${projectId} OR EXISTS (SELECT 1 FROM experiment_symlinks l
    WHERE l.experiment_id = ${experiment}.id AND l.project_id = ${projectId}))`

/** A condition on an artifact or a registered model and its workspace, for which `$1` and `$2` are enough. */
export const mayReadOfWorkspace = (thing: string, workspace: string) =>
  `(${isMember(workspace)} OR (${thing}.is_public AND ${workspace}.organization_id = $2))`
