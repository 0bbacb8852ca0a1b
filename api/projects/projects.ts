import { z } from 'zod'
import { flag, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { type Database, isUniqueViolation } from '../../store/postgres/database.ts'
import {
  insertProject,
  listProjects,
  type Project,
  updateArchived,
  updateProject,
  updateProjectOwner,
} from '../../store/postgres/projects/projects.ts'
import { type Access, type ProjectQuery, toViewer } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'

const topic = 'Projects'

export const projectName = text(100, 1)

/** The two ways to name a project in a query; exactly one of them must be used. */
export const projectQuery = object({
  projectId: optional(text(100, 1)),
  workspaceName: optional(workspaceName),
  projectName: optional(text(1_000, 1)),
})

const projectAnswer = z.object({
  projectId: z.string(),
  projectName: z.string(),
  ownerUserName: z.string(),
  projectDescription: z.string(),
  workspaceName: z.string(),
  numberOfExperiments: z.int(),
  lastUpdated: z.int().describe('ms since the Unix epoch'),
  public: z.boolean(),
  isPublic: z.boolean(),
  archived: z.boolean(),
})

export function createProjectRoutes({ database, access }: { database: Database; access: Access }): Route[] {
  return [
    route({
      method: 'POST',
      path: '/write/project/create',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Creates a project in a workspace.',
      body: object({
        workspaceName,
        projectName,
        projectDescription: optional(text(100_000)),
        isPublic: flag,
      }),
      answer: z.object({ projectId: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const workspace = await access.writableWorkspace(caller, body.workspaceName)
        try {
          const project = await insertProject(database, {
            workspaceId: workspace.id,
            userId: caller.userId,
            name: body.projectName,
            description: body.projectDescription ?? '',
            isPublic: body.isPublic,
          })
          return { msg: 'Project created', projectId: project.id }
        } catch (error) {
          if (!isUniqueViolation(error)) throw error
          throw new HttpError(
            'projectExists',
            `projectName: the workspace "${body.workspaceName}" has a project "${body.projectName}" already.`,
          )
        }
      },
    }),

    route({
      method: 'GET',
      path: '/projects',
      permission: 'caller',
      topic,
      summary: 'Lists the projects of a workspace: all, or with `archived` only those that are archived or not.',
      query: object({ workspaceName, archived: optional(flag) }),
      answer: z.object({ projects: z.array(projectAnswer) }),
      shape: 'plain',
      async handle({ query, caller }) {
        await access.namedWorkspace(caller, query.workspaceName)
        const projects = await listProjects(database, toViewer(caller), query)
        return { projects: projects.map(toAnswer) }
      },
    }),

    route({
      method: 'GET',
      path: '/project',
      permission: 'reader',
      topic,
      summary: 'Reads one project.',
      query: projectQuery,
      answer: projectAnswer,
      shape: 'plain',
      async handle({ query, caller }) {
        try {
          return toAnswer(await access.project(caller, query))
        } catch (error) {
          const isNamed = query.projectId === undefined
          if (!isNamed || !(error instanceof HttpError) || error.kind !== 'projectUnknown') throw error
          // Existing clients take only this status for an answer.
          throw new HttpError('projectNameUnknown', error.message)
        }
      },
    }),

    route({
      method: 'POST',
      path: '/write/project/update',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Changes the name, description or visibility of a project. Absent fields stay the same.',
      query: projectQuery,
      body: object({
        ...projectQuery.shape,
        newProjectName: optional(projectName),
        newProjectDescription: optional(text(100_000)),
        isPublic: optional(flag),
      }),
      answer: z.object({ msg: z.literal('Updated') }),
      shape: 'envelope',
      async handle({ query, body: { newProjectName, newProjectDescription, isPublic, ...named }, caller }) {
        const project = await access.writableProject(caller, mergeQueries(query, named))
        try {
          await updateProject(database, project.projectId, {
            name: newProjectName,
            description: newProjectDescription,
            isPublic,
          })
        } catch (error) {
          if (!isUniqueViolation(error)) throw error
          throw new HttpError(
            'projectExists',
            `newProjectName: the workspace "${project.workspaceName}" has a project "${newProjectName}" already.`,
          )
        }
        return { msg: 'Updated' as const }
      },
    }),

    route({
      method: 'POST',
      path: '/write/project/archive',
      charge: 'call',
      permission: 'caller',
      topic,
      summary:
        'Archives a project, or brings it back: the pages hide archived projects. Everything else works as before, ' +
        'logging to it too.',
      body: object({ ...projectQuery.shape, archived: flag }),
      answer: z.object({ msg: z.literal('Updated') }),
      shape: 'envelope',
      async handle({ body: { archived, ...named }, caller }) {
        const project = await access.writableProject(caller, named)
        await updateArchived(database, project.projectId, archived)
        return { msg: 'Updated' as const }
      },
    }),

    route({
      method: 'POST',
      path: '/write/project/update-owner',
      charge: 'call',
      permission: 'caller',
      topic,
      summary:
        'Gives a project to another member of its workspace. Only an owner of the workspace, or an admin, may do this.',
      body: object({ projectId: text(100, 1), userName: text(1_000, 1) }),
      answer: z.object({ msg: z.literal('Updated') }),
      shape: 'envelope',
      async handle({ body: { projectId, userName }, caller }) {
        const project = await access.writableProject(caller, { projectId })
        await access.managedWorkspace(caller, project.workspaceName)
        if (!(await updateProjectOwner(database, projectId, userName))) {
          throw new HttpError(
            'userUnknown',
            `userName: the workspace "${project.workspaceName}" has no member "${userName}".`,
          )
        }
        return { msg: 'Updated' as const }
      },
    }),
  ]
}

/** A client may name the project in the query, in the body, or the same way in both. */
function mergeQueries(query: ProjectQuery, body: ProjectQuery): ProjectQuery {
  return {
    projectId: query.projectId ?? body.projectId,
    workspaceName: query.workspaceName ?? body.workspaceName,
    projectName: query.projectName ?? body.projectName,
  }
}

/** Clients read the flag under either name. */
function toAnswer({ isWritable: _, ...project }: Project) {
  return { ...project, lastUpdated: Math.round(project.lastUpdated), public: project.isPublic }
}
