import { type QueryClient, queryOptions } from '@tanstack/react-query'
import { post, read } from './http.ts'

export type Project = {
  projectId: string
  projectName: string
  workspaceName: string
  ownerUserName: string
  projectDescription: string
  numberOfExperiments: number
  /** Milliseconds since the Unix epoch. */
  lastUpdated: number
  isPublic: boolean
  /** Hidden from lists until somebody asks for it. */
  archived: boolean
}

export const workspaces = queryOptions({
  queryKey: ['workspaces'],
  queryFn: async ({ signal }) =>
    (await read<{ workspaceNames: string[] }>('/workspaces', {}, { signal })).workspaceNames,
})

export const projects = (workspaceName: string) =>
  queryOptions({
    queryKey: ['projects', workspaceName],
    queryFn: async ({ signal }) =>
      (await read<{ projects: Project[] }>('/projects', { workspaceName }, { signal })).projects,
  })

/** Those that can be restored. */
export type DeletedProject = {
  projectId: string
  projectName: string
  projectDescription: string
  /** The runs that come back with it. */
  numberOfExperiments: number
  /** Both in milliseconds since the Unix epoch. */
  deletedAt: number
  restorableUntil: number
}

export const deletedProjects = (workspaceName: string) =>
  queryOptions({
    queryKey: ['deleted-projects', workspaceName],
    queryFn: async ({ signal }) =>
      (await read<{ projects: DeletedProject[] }>('/projects/deleted', { workspaceName }, { signal })).projects,
  })

/** After a project was deleted or restored. */
export const refreshProjects = (client: QueryClient, workspaceName: string) =>
  Promise.all([
    client.invalidateQueries(projects(workspaceName)),
    client.invalidateQueries(deletedProjects(workspaceName)),
  ])

export const createWorkspace = (name: string) => post('/write/workspace/new', { name })

export const createProject = (it: { workspaceName: string; projectName: string; projectDescription: string }) =>
  post<{ projectId: string }>('/write/project/create', { ...it, isPublic: false })

export const updateProject = (
  projectId: string,
  it: { newProjectName?: string; newProjectDescription?: string; isPublic?: boolean },
) => post('/write/project/update', { projectId, ...it })

export const archiveProject = (projectId: string, archived: boolean) =>
  post('/write/project/archive', { projectId, archived })

export const deleteProject = (it: { workspaceName: string; projectName: string; deleteAllExperiments: boolean }) =>
  post('/write/project/delete', it)

/** Brings a deleted project back, under a new name if one is given. */
export const restoreProject = (projectId: string, newProjectName?: string) =>
  post('/write/project/restore', { projectId, newProjectName })

export const project = (workspaceName: string, projectName: string) =>
  queryOptions({
    queryKey: ['project', workspaceName, projectName],
    queryFn: ({ signal }) => read<Project>('/project', { workspaceName, projectName }, { signal }),
  })

/** In Markdown. */
export const projectNotes = (projectId: string) =>
  queryOptions({
    queryKey: ['project-notes', projectId],
    queryFn: async ({ signal }) => (await read<{ notes: string }>('/project/notes', { projectId }, { signal })).notes,
  })

export const saveProjectNotes = (projectId: string, notes: string) => post('/write/project/notes', { projectId, notes })

/** The codes of a project's share links. Whoever has one reads the project without signing in. */
export const shareCodes = (projectId: string) =>
  queryOptions({
    queryKey: ['share-codes', projectId],
    queryFn: async ({ signal }) =>
      (await read<{ shareCodes: string[] }>('/project/get-project-share-links', { projectId }, { signal })).shareCodes,
  })

export const addShareCode = (projectId: string) =>
  read<{ shareCode: string }>('/write/project/add-share-link', { projectId })

export const deleteShareCode = (projectId: string, shareCode: string) =>
  read('/write/project/delete-project-share-link', { projectId, shareCode })
