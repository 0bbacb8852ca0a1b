import { z } from 'zod'
import {
  checkFields,
  describeFieldError,
  experimentKey,
  int64,
  list,
  loggedText,
  object,
  optional,
  timestampMs,
} from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { clientTopic, type Route, route } from '../../http/route.ts'
import { insertSymlinks } from '../../store/postgres/experiments/experiments.ts'
import { insertTags, upsertValues } from '../../store/postgres/experiments/values.ts'
import { addedTags, type RunValueDeps, toContext, valueContext, valueName } from '../experiments/logged-values.ts'
import { projectName } from '../projects/projects.ts'

const parametersMax = 100_000

const parameter = object({
  parameterName: valueName,
  parameterValue: loggedText,
  context: valueContext,
  step: optional(int64),
  timestamp: optional(timestampMs),
})

const batch = object({ experimentKey, values: list(parameter, parametersMax) })
/** One wrong parameter does not fail the others. */
const batchOfAnything = object({ experimentKey, values: list(z.unknown(), parametersMax) })

const okAnswer = z.object({ msg: z.string() })

/** Parameters, tags and symlinks, as clients that log live send them. */
export function createRunValueRoutes({ database, access, heartbeats, rateLimited, runStore }: RunValueDeps): Route[] {
  const common = { method: 'POST', atRoot: true, permission: 'caller', topic: clientTopic, shape: 'envelope' } as const
  return [
    route({
      ...common,
      path: '/clientlib/batch/logger/experiment/parameter',
      charge: 'own',
      summary: 'Logs parameters. With a wrong one the answer is 400; the others are stored.',
      body: batch,
      checksOwnBody: true,
      answer: okAnswer,
      async handle({ body, caller }) {
        const { experimentKey, values } = checkFields(batchOfAnything, body)
        const experiment = await access.writableExperiment(caller, experimentKey)
        const { right, wrong } = readParameters(values)
        const nowMs = Date.now()
        const given = right.map(({ parameterName, parameterValue, context, step, timestamp = nowMs }) => ({
          name: parameterName,
          context,
          value: parameterValue,
          step,
          timestampMs: timestamp,
        }))
        const write = () => upsertValues(runStore, experiment.id, 'parameter', given)
        await rateLimited('parameters', experiment, caller, write, right.length)
        heartbeats.active(experiment.id, nowMs)
        if (wrong.length > 0) {
          throw new HttpError(
            'pointsWrong',
            `${wrong[0]} (${wrong.length} wrong in this batch; all others were stored)`,
          )
        }
        return { msg: 'Saved' }
      },
    }),

    route({
      ...common,
      path: '/clientlib/tags/add-tags-to-experiment',
      charge: 'own',
      summary: 'Adds tags and keeps the others.',
      body: object({ experimentKey, addedTags }),
      answer: okAnswer,
      async handle({ body, caller }) {
        const experiment = await access.writableExperiment(caller, body.experimentKey)
        await rateLimited('other', experiment, caller, () => insertTags(runStore, experiment.id, body.addedTags))
        heartbeats.active(experiment.id, Date.now())
        return { msg: 'Saved' }
      },
    }),

    route({
      ...common,
      method: 'GET',
      path: '/clientlib/symlink/new',
      charge: 'call',
      summary: 'Symlinks an experiment into another project of its workspace.',
      query: object({ experimentKey, projectName }),
      answer: okAnswer,
      async handle({ query, caller }) {
        const experiment = await access.writableExperiment(caller, query.experimentKey)
        const { workspaceName } = experiment
        const target = await access.writableProject(caller, { workspaceName, projectName: query.projectName })
        await insertSymlinks(database, [experiment.id], target.projectId)
        return { msg: 'Saved' }
      },
    }),
  ]
}

function readParameters(values: unknown[]) {
  const right: z.output<typeof parameter>[] = []
  const wrong: string[] = []
  values.forEach((raw, index) => {
    const checked = parameter.safeParse(raw)
    if (!checked.success) {
      wrong.push(describeFieldError(checked.error, `values[${index}]`))
      return
    }
    const { context, parameterName } = checked.data
    try {
      toContext({ context }, parameterName)
      right.push(checked.data)
    } catch (error) {
      if (!(error instanceof HttpError)) throw error
      wrong.push(`values[${index}].${error.message}`)
    }
  })
  return { right, wrong }
}
