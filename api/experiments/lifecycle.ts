import { z } from 'zod'
import { experimentKey, flag, list, object, text } from '../../http/body/fields.ts'
import { unknownExperiment } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import { deleteThrottled } from '../../store/postgres/experiments/counters.ts'
import { insertSymlinks, moveExperiments, updateCondition } from '../../store/postgres/experiments/experiments.ts'
import { type Access, unknownProject } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'
import { projectName } from '../projects/projects.ts'
import { toExperimentLink } from './experiments.ts'

const topic = 'Experiments'

const keysMax = 10_000

type Deps = { database: Database; access: Access; appUrl: string }

/** Stops, archives, deletes, restores and moves experiments. */
export function createLifecycleRoutes({ database, access, appUrl }: Deps): Route[] {
  function change(name: string, condition: Parameters<typeof updateCondition>[3], msg: string, summary: string): Route {
    return route({
      method: 'GET',
      path: `/write/experiment/${name}`,
      charge: 'call',
      permission: 'caller',
      topic,
      summary,
      query: object({ experimentKey }),
      answer: z.object({ msg: z.literal(msg) }),
      shape: 'envelope',
      async handle({ query, caller }) {
        const key = query.experimentKey
        if (await updateCondition(database, caller.viewerId, key, condition)) return { msg }
        // The error depends on the experiment: read-only, or unknown if it was deleted.
        await access.writableExperiment(caller, key)
        throw unknownExperiment(key)
      },
    })
  }

  return [
    change(
      'stop',
      'stopped',
      'Stop Requested',
      'Requests an experiment to stop: the answer to its next keep-alive says so.',
    ),
    change('archive', 'archived', 'Archived', 'Archives an experiment: lists omit it unless `archived` is true.'),
    change('delete', 'deleted', 'Deleted', 'Deletes an experiment; for a while it can be restored.'),
    change('restore', 'restored', 'Restore', 'Restores an archived or deleted experiment.'),

    route({
      method: 'POST',
      path: '/write/experiment/{experimentKey}/mark-not-throttled',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Clears the mark that limits rejected data of an experiment; the next rejected data sets it again.',
      params: object({ experimentKey }),
      answer: z.object({ msg: z.literal('Saved') }),
      shape: 'envelope',
      async handle({ params, caller }) {
        const experiment = await access.writableExperiment(caller, params.experimentKey)
        await deleteThrottled(database, experiment.id)
        return { msg: 'Saved' as const }
      },
    }),

    route({
      method: 'POST',
      path: '/write/experiment/move',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Moves experiments to another project, or symlinks them there. All of them or none.',
      body: object({
        targetWorkspaceName: workspaceName,
        targetProjectName: text(1_000, 1),
        experimentKeys: list(experimentKey, keysMax),
        symlink: flag,
      }),
      answer: z.object({ msg: z.string() }),
      shape: 'envelope',
      async handle({ body, caller }) {
        const target = await access.writableProject(caller, {
          workspaceName: body.targetWorkspaceName,
          projectName: body.targetProjectName,
        })
        const ids: bigint[] = []
        for (const key of body.experimentKeys) ids.push((await access.writableExperiment(caller, key)).id)
        await database.transaction(async (queries) => {
          if (body.symlink) await insertSymlinks(queries, ids, target.projectId)
          else if (!(await moveExperiments(queries, ids, target.projectId))) throw unknownProject()
        })
        return { msg: body.symlink ? 'Symlinked' : 'Moved' }
      },
    }),

    route({
      method: 'GET',
      path: '/write/project/symlink',
      charge: 'call',
      permission: 'caller',
      topic,
      summary: 'Symlinks an experiment into another project of its workspace.',
      query: z
        .object({ exerimentKey: experimentKey.optional(), experimentKey: experimentKey.optional(), projectName })
        .transform(({ exerimentKey, experimentKey, projectName }) => ({
          experimentKey: exerimentKey ?? experimentKey,
          projectName,
        }))
        .pipe(object({ experimentKey, projectName })),
      answer: z.object({ link: z.url() }),
      shape: 'envelope',
      async handle({ query, caller }) {
        const experiment = await access.writableExperiment(caller, query.experimentKey)
        const { workspaceName } = experiment
        const target = await access.writableProject(caller, { workspaceName, projectName: query.projectName })
        await insertSymlinks(database, [experiment.id], target.projectId)
        return { link: toExperimentLink(appUrl, workspaceName, target.projectName, experiment.key) }
      },
    }),
  ]
}
