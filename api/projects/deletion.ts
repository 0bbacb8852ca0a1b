import { z } from 'zod'
import { flag, object, optional, text } from '../../http/body/fields.ts'
import { HttpError, needsEditor } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { type Database, isUniqueViolation } from '../../store/postgres/database.ts'
import {
  deleteProject,
  findDeletedProject,
  listDeletedProjects,
  restoreProject,
} from '../../store/postgres/projects/deletion.ts'
import { type Access, refuseWithheld } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'
import { projectName } from './projects.ts'

const topic = 'Projects'

const deletedProject = z.object({
  projectId: z.string(),
  projectName: z.string(),
  projectDescription: z.string(),
  numberOfExperiments: z.int().describe('the experiments that come back with it'),
  deletedAt: z.int().describe('ms since the Unix epoch'),
  restorableUntil: z.int().describe('ms since the Unix epoch'),
})

type Deps = { database: Database; access: Access; deletedKeptForMs: number }

/** Projects are deleted, and for a while brought back. */
export function createProjectDeletionRoutes({ database, access, deletedKeptForMs }: Deps): Route[] {
  return [
    route({
      method: 'POST',
      path: '/write/project/delete',
      charge: 'call',
      permission: 'caller',
      topic,
      summary:
        'Deletes a project; for a while it can be restored. Its experiments are deleted too, or moved to the project ' +
        '“Uncategorized Experiments” of the workspace.',
      body: object({ workspaceName, projectName: text(1_000, 1), deleteAllExperiments: flag }),
      answer: z.object({ msg: z.literal('Deleted') }),
      shape: 'envelope',
      async handle({ body: { deleteAllExperiments, ...named }, caller }) {
        const { projectId } = await access.writableProject(caller, named)
        await deleteProject(database, { projectId, userId: caller.userId, deleteExperiments: deleteAllExperiments })
        return { msg: 'Deleted' as const }
      },
    }),

    route({
      method: 'GET',
      path: '/projects/deleted',
      permission: 'caller',
      topic,
      summary: 'Lists the deleted projects of a workspace that can still be restored, the last deleted first.',
      query: object({ workspaceName }),
      answer: z.object({ projects: z.array(deletedProject) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const { id } = await access.workspace(caller, query.workspaceName)
        const projects = await listDeletedProjects(database, id)
        return {
          projects: projects.map(({ deletedAtMs, ...project }) => ({
            ...project,
            deletedAt: Math.round(deletedAtMs),
            restorableUntil: Math.round(deletedAtMs) + deletedKeptForMs,
          })),
        }
      },
    }),

    route({
      method: 'POST',
      path: '/write/project/restore',
      charge: 'call',
      permission: 'caller',
      topic,
      summary:
        'Undoes the deletion of a project: it comes back with its notes, views and share links, and with its experiments, ' +
        'but for those that were moved elsewhere meanwhile.',
      body: object({ projectId: text(100, 1), newProjectName: optional(projectName) }),
      answer: z.object({ msg: z.literal('Restored'), projectName: z.string(), workspaceName: z.string() }),
      shape: 'envelope',
      async handle({ body: { projectId, newProjectName }, caller }) {
        const project = await findDeletedProject(database, caller.viewerId, projectId)
        if (!project) {
          await refuseWithheld(database, caller, 'deletedProjectId', projectId)
          throw notDeleted()
        }
        const { isWritable, ...named } = project
        if (!isWritable) throw needsEditor('projectReadOnly', 'project', named.workspaceName)
        const restored = { ...named, projectName: newProjectName ?? named.projectName }
        try {
          if (!(await restoreProject(database, projectId, newProjectName))) throw notDeleted()
        } catch (error) {
          if (!isUniqueViolation(error)) throw error
          throw new HttpError(
            'projectExists',
            `newProjectName: the workspace "${restored.workspaceName}" has another project "${restored.projectName}" ` +
              'by now; send a name that is free.',
          )
        }
        return { msg: 'Restored' as const, ...restored }
      },
    }),
  ]
}

/** The same answer for a project that is not deleted, that is gone for good, or that is foreign. */
const notDeleted = () =>
  new HttpError('projectUnknown', 'projectId: there is no such deleted project that this key may restore.')
