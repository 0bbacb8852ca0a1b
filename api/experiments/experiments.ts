import { randomBytes } from 'node:crypto'
import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import { experimentKey, flag, object, optional, text, timestampMs } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import { type Database, isUniqueViolation, type Queries } from '../../store/postgres/database.ts'
import {
  type Experiment,
  listExperiments,
  silentMsMax,
  updateTimes,
} from '../../store/postgres/experiments/experiments.ts'
import { beatMs, type Heartbeats, toAliveSince } from '../../store/postgres/experiments/heartbeats.ts'
import { type Access, toViewer } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'
import { projectName, projectQuery } from '../projects/projects.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'
import { createExperiment, requireNewKey } from './new-experiment.ts'
import { pageFields, pagesDescription, toNextPage, toPage } from './pages.ts'
import { createReadableName } from './readable-name.ts'
import { pendingCallsAnswer, readPendingCalls } from './rpc.ts'

const topic = 'Experiments'

export const gpuIntervalMs = 15_000
export const cpuIntervalMs = 15_000

const newKeyBytes = 16
export const metadataAnswer = z.object({
  experimentKey: z.string(),
  experimentName: z.string(),
  optimizationId: z.null(),
  userName: z.string(),
  projectId: z.string(),
  projectName: z.string(),
  workspaceName: z.string(),
  filePath: z.string().nullable(),
  fileName: z.string().nullable(),
  durationMillis: z.int(),
  startTimeMillis: z.int(),
  endTimeMillis: z.int(),
  archived: z.boolean(),
  running: z.boolean(),
  hasCrashed: z.boolean().describe('the end of the run as the client reported it'),
  error: z.string().optional(),
  throttle: z.boolean().describe('true while a limit applies, and for a minute after'),
  throttleMessage: z.string().optional(),
  throttleReasons: z.array(z.string()).optional().describe('the limits, one sentence each'),
})

type Deps = {
  database: Database
  reads: Queries
  access: Access
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
  appUrl: string
}

export function createExperimentRoutes({ database, reads, access, heartbeats, rateLimited, appUrl }: Deps): Route[] {
  const create = route({
    method: 'POST',
    path: '/write/experiment/create',
    charge: 'call',
    permission: 'caller',
    topic,
    summary: 'Creates an experiment, and its project if it does not exist. The workspace must exist.',
    body: object({
      workspaceName,
      projectName,
      experimentName: optional(text(1_000)),
      experimentKey: optional(text(200)),
    }),
    answer: z.object({
      experimentKey: z.string(),
      workspaceName: z.string(),
      projectName: z.string(),
      name: z.string(),
      link: z.url(),
    }),
    shape: 'envelope',
    async handle({ body, caller }) {
      const workspace = await access.workspaceOfNewRun(caller, body.workspaceName, body.projectName)
      const key = requireNewKey(body.experimentKey || randomBytes(newKeyBytes).toString('hex'))
      const name = body.experimentName || createReadableName()
      await access.roomForExperiments({ workspaceId: workspace.id })
      try {
        const { projectName } = body
        await createExperiment(database, { key, workspaceId: workspace.id, projectName, userId: caller.userId, name })
      } catch (error) {
        if (!isUniqueViolation(error)) throw error
        throw new HttpError(
          'experimentExists',
          `experimentKey: there is an experiment ${key} already; choose another key.`,
        )
      }
      return {
        msg: 'Experiment created',
        experimentKey: key,
        workspaceName: workspace.name,
        projectName: body.projectName,
        name,
        link: toExperimentLink(appUrl, workspace.name, body.projectName, key),
      }
    },
  })

  const setStatus = route({
    method: 'GET',
    path: '/write/experiment/set-status',
    charge: 'own',
    permission: 'caller',
    topic,
    summary:
      'The keep-alive of a running experiment. The answer has the intervals for keep-alives and for resource usage.',
    query: object({ experimentKey }),
    answer: z.object({
      isAliveBeatDurationMillis: z.int(),
      gpuMonitorIntervalMillis: z.int(),
      cpuMonitorIntervalMillis: z.int(),
      stopRequested: z.boolean(),
      rpcCalls: pendingCallsAnswer,
    }),
    shape: 'envelope',
    async handle({ query, caller }) {
      const experiment = await access.writableExperiment(caller, query.experimentKey)
      await rateLimited('other', experiment, caller, async () => heartbeats.alive(experiment.id, Date.now()))
      return {
        isAliveBeatDurationMillis: beatMs,
        gpuMonitorIntervalMillis: gpuIntervalMs,
        cpuMonitorIntervalMillis: cpuIntervalMs,
        stopRequested: experiment.stopRequested,
        rpcCalls: await readPendingCalls(database, experiment.id),
      }
    },
  })

  const setTimes = route({
    method: 'POST',
    path: '/write/experiment/set-start-end-time',
    charge: 'own',
    permission: 'caller',
    topic,
    summary: 'Sets the start and end time of an experiment. Absent fields stay the same.',
    body: object({
      experimentKey,
      startTimeMillis: optional(timestampMs),
      endTimeMillis: optional(timestampMs),
    }),
    answer: z.object({ msg: z.string() }),
    shape: 'envelope',
    async handle({ body, caller }) {
      const experiment = await access.writableExperiment(caller, body.experimentKey)
      const times = { startTimeMs: body.startTimeMillis, endTimeMs: body.endTimeMillis }
      await rateLimited('other', experiment, caller, () => updateTimes(database, experiment.id, times))
      return { msg: 'Saved' }
    },
  })

  const metadata = route({
    method: 'GET',
    path: '/experiment/metadata',
    permission: 'reader',
    topic,
    summary: 'Reads the metadata of an experiment: name, project, times and state.',
    query: object({ experimentKey }),
    answer: metadataAnswer.extend({ link: z.url().describe('its page') }),
    shape: 'plain',
    async handle({ query, caller }) {
      const metadata = toMetadata(await access.experiment(caller, query.experimentKey), Date.now())
      const { workspaceName, projectName } = metadata
      return { ...metadata, link: toExperimentLink(appUrl, workspaceName, projectName, metadata.experimentKey) }
    },
  })

  const list = route({
    method: 'GET',
    path: '/experiments',
    permission: 'reader',
    topic,
    summary: `Lists the experiments of a project, oldest first unless sorted. ${pagesDescription}`,
    query: z.object({ ...projectQuery.shape, archived: optional(flag), ...pageFields }),
    answer: z.object({ experiments: z.array(metadataAnswer), nextPage: z.string().nullable() }),
    shape: 'plain',
    async handle({ query: { archived, ...query }, caller }) {
      const project = await access.project(caller, query)
      const page = toPage(query)
      const experiments = await listExperiments(reads, toViewer(caller), {
        ...page,
        projectId: project.projectId,
        archived: archived ?? false,
        limit: page.limit + 1,
      })
      const shown = experiments.slice(0, page.limit)
      const nowMs = Date.now()
      return {
        experiments: shown.map((it) => toMetadata(it, nowMs)),
        nextPage: experiments.length > page.limit ? toNextPage(page, shown.at(-1)) : null,
      }
    },
  })

  return [create, setStatus, setTimes, metadata, list]
}

/** The URL of an experiment in the web application. */
export function toExperimentLink(appUrl: string, workspaceName: string, projectName: string, key: string): string {
  return `${toProjectLink(appUrl, workspaceName, projectName)}/${encodeURIComponent(key)}`
}

export function toProjectLink(appUrl: string, workspaceName: string, projectName: string): string {
  return [appUrl, ...[workspaceName, projectName].map(encodeURIComponent)].join('/')
}

/** The end time follows the last activity until it is set; `running` is false after the keep-alives stop. */
export function toMetadata(experiment: Experiment, nowMs: number): z.input<typeof metadataAnswer> {
  const start = experiment.startTimeMs
  const end = experiment.endTimeMs ?? experiment.activeAtMs
  return {
    experimentKey: experiment.key,
    experimentName: experiment.name,
    optimizationId: null,
    userName: experiment.userName,
    projectId: experiment.projectId,
    projectName: experiment.projectName,
    workspaceName: experiment.workspaceName,
    filePath: experiment.filePath,
    fileName: experiment.filePath?.split(/[\\/]/).at(-1) ?? null,
    durationMillis: end > start ? toJsonInteger(end - start) : 0,
    startTimeMillis: toJsonInteger(start),
    endTimeMillis: toJsonInteger(end),
    archived: experiment.archived,
    running: isRunning(experiment, nowMs),
    hasCrashed: experiment.hasCrashed ?? false,
    ...(experiment.error !== null && { error: experiment.error }),
    ...toThrottle(experiment.throttleReasons),
  }
}

/** Clients without keep-alives report that a run goes on. */
function isRunning({ aliveAtMs, activeAtMs, reportedStatus }: Experiment, nowMs: number): boolean {
  const since = toAliveSince(nowMs)
  if (aliveAtMs !== null && Number(aliveAtMs) > since) return true
  return reportedStatus !== null && Number(activeAtMs) > since - silentMsMax
}

function toThrottle(reasons: string[]) {
  if (reasons.length === 0) return { throttle: false }
  return {
    throttle: true,
    throttleMessage: `Limits keep some of what is sent out: ${reasons.join('; ')}. This clears by itself a minute after.`,
    throttleReasons: reasons,
  }
}
