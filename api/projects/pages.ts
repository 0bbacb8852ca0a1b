import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { object, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  deleteShareLink,
  findNotes,
  insertShareLink,
  listDefaultViews,
  listShareLinks,
  type PageWithViews,
  updateNotes,
  upsertDefaultView,
} from '../../store/postgres/projects/projects.ts'
import type { Access } from '../access.ts'
import { projectQuery } from './projects.ts'

const topic = 'Projects'

const shareCodeBytes = 24
const notesCharactersMax = 1_000_000

const projectId = text(100, 1)
const msgAnswer = z.object({ msg: z.string() })

/** Notes, share links and default views of a project. */
export function createProjectPageRoutes({ database, access }: { database: Database; access: Access }): Route[] {
  function setDefaultView(path: string, page: PageWithViews, summary: string): Route {
    return route({
      method: 'POST',
      path,
      charge: 'call',
      permission: 'caller',
      topic,
      summary,
      body: object({ templateId: text(200, 1), ...projectQuery.shape }),
      answer: msgAnswer,
      shape: 'envelope',
      async handle({ body: { templateId, ...named }, caller }) {
        const project = await access.writableProject(caller, named)
        await upsertDefaultView(database, project.projectId, page, templateId)
        return { msg: 'Saved' }
      },
    })
  }

  return [
    route({
      method: 'POST',
      path: '/write/project/notes',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Sets the notes of a project.',
      body: object({ projectId, notes: text(notesCharactersMax) }),
      answer: z.object({ msg: z.literal('Saved') }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const project = await access.writableProject(caller, { projectId: body.projectId })
        await updateNotes(database, project.projectId, body.notes)
        return { msg: 'Saved' as const }
      },
    }),

    route({
      method: 'GET',
      path: '/project/notes',
      permission: 'reader',
      topic,
      summary: 'Reads the notes of a project.',
      query: object({ projectId }),
      answer: z.object({ notes: z.string() }),
      shape: 'plain',
      async handle({ query, caller }) {
        const project = await access.project(caller, query)
        return { notes: await findNotes(database, project.projectId) }
      },
    }),

    route({
      method: 'GET',
      path: '/write/project/add-share-link',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Creates a share code. Anyone can read the project with `shareCode` in the query, without a key.',
      query: object({ projectId }),
      answer: z.object({ shareCode: z.string() }),
      shape: 'envelope',
      async handle({ query, caller }) {
        const project = await access.writableProject(caller, query)
        const shareCode = randomBytes(shareCodeBytes).toString('base64url')
        await insertShareLink(database, project.projectId, shareCode)
        return { shareCode }
      },
    }),

    route({
      method: 'GET',
      path: '/write/project/delete-project-share-link',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Revokes a share code.',
      query: object({ projectId, shareCode: text(200, 1) }),
      answer: msgAnswer,
      shape: 'envelope',
      async handle({ query, caller }) {
        const project = await access.writableProject(caller, { projectId: query.projectId })
        const wasThere = await deleteShareLink(database, project.projectId, query.shareCode)
        if (!wasThere) throw new HttpError('badRequest', 'shareCode: the project has no such share link')
        return { msg: 'Deleted' }
      },
    }),

    route({
      method: 'GET',
      path: '/project/get-project-share-links',
      permission: 'caller',
      topic,
      summary: 'Lists the share codes of a project. Only callers who may change the project can do this.',
      query: object({ projectId }),
      answer: z.object({ shareCodes: z.array(z.string()) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const project = await access.writableProject(caller, query)
        return { shareCodes: await listShareLinks(database, project.projectId) }
      },
    }),

    setDefaultView(
      '/write/template/set-default',
      'experiment',
      'Sets the view that experiments of a project open with.',
    ),
    setDefaultView(
      '/write/dashboard-template/set-default',
      'project',
      'Sets the view that a project’s page opens with.',
    ),

    route({
      method: 'GET',
      path: '/project/default-views',
      permission: 'reader',
      topic,
      summary: 'Reads the default views of the pages of a project; null where none is set.',
      query: projectQuery,
      answer: z.object({ experiment: z.string().nullable(), project: z.string().nullable() }),
      shape: 'plain',
      async handle({ query, caller }) {
        const project = await access.project(caller, query)
        const views = new Map(
          (await listDefaultViews(database, project.projectId)).map((it) => [it.page, it.templateId]),
        )
        return { experiment: views.get('experiment') ?? null, project: views.get('project') ?? null }
      },
    }),
  ]
}
