import { z } from 'zod'
import { toJsonAnswer, toJsonInteger } from '../../http/body/exact-json.ts'
import { experimentKey, flag, object, optional, text, timestampMs } from '../../http/body/fields.ts'
import { anyKind, jsonText } from '../../http/body/json-field.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  countViews,
  deleteView,
  insertView,
  listViews,
  updateView,
  type View,
  type ViewKind,
} from '../../store/postgres/projects/views.ts'
import { type Access, toViewer, unknownProject } from '../access.ts'

const topic = 'Projects'

const viewsMax = 1_000
const contentBytesMax = 1024 * 1024

const projectId = text(100, 1)
const templateId = text(200, 1)
const anything = z.unknown().meta({ type: anyKind })
const state = text(contentBytesMax)

const viewAnswer = z.object({
  templateId: z.string(),
  templateName: z.string(),
  projectId: z.string(),
  experimentKey: z.string().nullable(),
  viewSource: z.enum(['dashboard_template', 'chart_template']),
  createdBy: z.string(),
  lastUpdate: z.int().describe('ms since the Unix epoch'),
  projectDefault: z.boolean().describe('true when pages of the project open with it'),
  experimentQueryState: z.string().nullable(),
  dashboardChartState: z.string().nullable(),
  reactGridTableState: z.string().nullable(),
  v2: anything,
  v3: anything,
})

/** Saved views: what a page of a project or of an experiment shows, as the client that drew it wrote it. */
export function createViewRoutes({ database, access }: { database: Database; access: Access }): Route[] {
  function list(path: string, kind: ViewKind, summary: string): Route {
    return route({
      method: 'GET',
      path,
      permission: 'reader',
      topic,
      summary,
      query: object({
        projectId,
        experimentKey: optional(experimentKey).describe('those of this experiment; absent: those of no experiment'),
        templateId: optional(templateId).describe('only this one'),
        includeWorkspaceViews: optional(flag).describe('true: also all of other projects of the workspace'),
      }),
      answer: z.object({ views: z.array(viewAnswer) }),
      shape: 'plain',
      async handle({ query, caller }) {
        const project = await access.project(caller, { projectId: query.projectId })
        const experiment = query.experimentKey && (await access.experiment(caller, query.experimentKey))
        const found = await listViews(database, toViewer(caller), {
          projectId: project.projectId,
          kind,
          experimentId: experiment ? experiment.id : undefined,
          ofWorkspace: query.includeWorkspaceViews ?? false,
          id: query.templateId,
        })
        return { views: found.map(toAnswer) }
      },
    })
  }

  function upsert(path: string, kind: ViewKind, summary: string): Route {
    return route({
      method: 'POST',
      path,
      charge: 'call',
      permission: 'caller',
      topic,
      summary: `${summary} Without templateId a new one is made.`,
      body: object({
        projectId,
        templateName: text(1_000, 1),
        templateId: optional(templateId),
        ifLastUpdate: optional(timestampMs).describe(
          'the lastUpdate that the change was made from: when the view was saved since, nothing is stored (409)',
        ),
        experimentKey: optional(experimentKey),
        experimentQueryState: optional(state),
        dashboardChartState: optional(state),
        reactGridTableState: optional(state),
        v2: jsonText(contentBytesMax),
        v3: jsonText(contentBytesMax),
      }),
      answer: viewAnswer,
      shape: 'envelope',
      bodyBytesMax: 5 * contentBytesMax,
      async handle({ body, caller }) {
        const { projectId, templateName: name, templateId, ifLastUpdate, experimentKey, ...content } = body
        const { v2 = 'null', v3 = 'null', ...states } = content
        const project = await access.writableProject(caller, { projectId })
        const experiment = experimentKey && (await access.writableExperiment(caller, experimentKey))
        const texts = JSON.stringify(states).slice(0, -1)
        const stored = `${texts}${texts === '{' ? '' : ','}"v2":${v2},"v3":${v3}}`
        const given = {
          projectId: project.projectId,
          experimentId: experiment ? experiment.id : undefined,
          kind,
          name,
          userId: caller.userId,
          content: stored,
          nowMs: Date.now(),
        }
        if (templateId !== undefined) {
          const changed = await updateView(database, templateId, { ...given, ifUpdatedAtMs: ifLastUpdate })
          if (changed === 'absent') throw unknownView(templateId)
          if (changed === 'saved since') throw savedSince()
          return toAnswer(changed)
        }
        if ((await countViews(database, given)) >= viewsMax) {
          throw new HttpError(
            'badRequest',
            `There may be up to ${viewsMax} views of a project or of an experiment: delete some.`,
          )
        }
        const made = await insertView(database, given)
        if (!made) throw unknownProject()
        return toAnswer(made)
      },
    })
  }

  return [
    list('/views/get-all', 'dashboard', 'Lists the saved views of a project or of an experiment, by name.'),
    list('/views/chart-templates', 'chart', 'Lists the saved chart views of a project or of an experiment, by name.'),
    upsert('/write/views/upsert', 'dashboard', 'Saves a view of a project.'),
    upsert('/write/chart-templates/upsert', 'chart', 'Saves a chart view of an experiment.'),

    route({
      method: 'POST',
      path: '/write/views/delete',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Deletes a saved view of either kind.',
      body: object({ projectId, templateId }),
      answer: z.object({ msg: z.literal('Deleted') }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const project = await access.writableProject(caller, { projectId: body.projectId })
        if (!(await deleteView(database, project.projectId, body.templateId))) throw unknownView(body.templateId)
        return { msg: 'Deleted' as const }
      },
    }),
  ]
}

const unknownView = (templateId: string) =>
  new HttpError('badRequest', `templateId: the project has no such view as ${templateId}; leave it out for a new one`)

const savedSince = () =>
  new HttpError(
    'viewChanged',
    'ifLastUpdate: the view was saved since then: read it again, and make the change from what it is now.',
  )

function toAnswer(view: View): z.input<typeof viewAnswer> {
  const content = toJsonAnswer(view.content) as { [name: string]: unknown }
  const text = (name: string) => (content[name] as string | undefined) ?? null
  return {
    templateId: view.id,
    templateName: view.name,
    projectId: view.projectId,
    experimentKey: view.experimentKey,
    viewSource: view.kind === 'dashboard' ? 'dashboard_template' : 'chart_template',
    createdBy: view.userName,
    lastUpdate: toJsonInteger(view.updatedAtMs),
    projectDefault: view.isDefault,
    experimentQueryState: text('experimentQueryState'),
    dashboardChartState: text('dashboardChartState'),
    reactGridTableState: text('reactGridTableState'),
    v2: content.v2,
    v3: content.v3,
  }
}
