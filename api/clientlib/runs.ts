import { z } from 'zod'
import { experimentKey, flag, object, optional, text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { type Caller, clientTopic, type Route, route } from '../../http/route.ts'
import { type Database, isUniqueViolation } from '../../store/postgres/database.ts'
import { clearStop, type Experiment, hasEnded } from '../../store/postgres/experiments/experiments.ts'
import type { Access } from '../access.ts'
import { toProjectLink } from '../experiments/experiments.ts'
import { createExperiment, requireNewKey } from '../experiments/new-experiment.ts'
import { createReadableName } from '../experiments/readable-name.ts'
import { projectName } from '../projects/projects.ts'

/** What a client that logs live asks first: for a new experiment, or to go on with one. */

/** Where runs go that name no project. */
const defaultProjectName = 'general'
const megabytesMax = 100 * 1024
const nameLengthMax = 1_000

/** A client prints a `msg` of this answer, so there is none. */
const runAnswer = z.object({
  runId: z.string(),
  project_id: z.string(),
  githubEnabled: z.boolean(),
  focusUrl: z.string().describe('the link to the experiment is this and its key'),
  lastOffset: z.int().describe('the first offset for lines of output'),
  name: z.string(),
  upload_file_size_limit_in_mb: z.int(),
  asset_upload_file_size_limit_in_mb: z.int(),
  uploadVideoMaxSizeMB: z.int(),
  featureToggles: z.array(z.object({ name: z.string(), enabled: z.boolean() })),
  cometRestApiAssetUrl: z.string(),
  cometRestApiImageUrl: z.string(),
  cometWebAssetUrl: z.string(),
  cometWebImageUrl: z.string(),
  s3DirectAccessEnabled: z.boolean(),
  artifactNameMaxLength: z.int(),
  assetNameMaxLength: z.int(),
  imageNameMaxLength: z.int(),
})

type Deps = { database: Database; access: Access; appUrl: string }

export function createLoggedRunRoutes({ database, access, appUrl }: Deps): Route[] {
  async function resume(caller: Caller, key: string) {
    const experiment = await access.writableExperiment(caller, key)
    // Or else the run would be stopped again.
    if (experiment.stopRequested) await clearStop(database, experiment.id)
    return toRun(experiment, appUrl)
  }

  const add = route({
    method: 'POST',
    path: '/clientlib/logger/add/run',
    charge: 'call',
    atRoot: true,
    permission: 'caller',
    topic: clientTopic,
    summary:
      'Creates the experiment of a run, and its project if it does not exist. Repeated at once, it answers the same.',
    body: object({
      experimentKey,
      projectName: optional(projectName),
      teamName: optional(text(1_000)).describe('the workspace'),
      offline: optional(flag).describe('true: an archive, which may also complete a run that has not ended'),
      getOrCreateEnabled: optional(flag).describe('true: goes on with the experiment if it exists'),
    }),
    answer: runAnswer,
    shape: 'plain',
    async handle({ body, caller }) {
      const key = requireNewKey(body.experimentKey)
      const workspaceName = body.teamName || caller.defaultWorkspaceName
      if (!workspaceName) {
        throw new HttpError(
          'workspaceUnknown',
          'This key has no default workspace: name the workspace of the experiment.',
        )
      }
      const name = body.projectName || defaultProjectName
      const workspace = await access.workspaceOfNewRun(caller, workspaceName, name)
      // Whoever goes on with an experiment needs no room for another.
      const full = await access.roomForExperiments({ workspaceId: workspace.id }).catch((error: unknown) => ({ error }))
      if (full && !body.getOrCreateEnabled) throw full.error
      if (full) {
        return await resume(caller, key).catch(() => {
          throw full.error
        })
      }
      try {
        await createExperiment(database, {
          key,
          workspaceId: workspace.id,
          projectName: name,
          userId: caller.userId,
          name: createReadableName(),
        })
      } catch (error) {
        if (!isUniqueViolation(error)) throw error
        if (body.getOrCreateEnabled) return await resume(caller, key)
        const existing = await access.writableExperiment(caller, key).catch(() => undefined)
        // A client repeats a request whose answer it did not get. An archive completes a run whose end never came.
        const isSame = existing?.workspaceName === workspace.name && existing.projectName === name
        const goesOn =
          existing && isSame && (body.offline ? !(await hasEnded(database, existing.id)) : isUntouched(existing))
        if (goesOn) return toRun(existing, appUrl)
        throw new HttpError('experimentExists', `There is an experiment ${key} already.`)
      }
      return toRun(await access.writableExperiment(caller, key), appUrl)
    },
  })

  const get = route({
    method: 'POST',
    path: '/clientlib/logger/get/run',
    charge: 'call',
    atRoot: true,
    permission: 'caller',
    topic: clientTopic,
    summary: 'Goes on with an experiment; a request to stop it is forgotten.',
    body: object({ previousExperiment: experimentKey }),
    answer: runAnswer,
    shape: 'plain',
    async handle({ body, caller }) {
      try {
        return await resume(caller, body.previousExperiment)
      } catch (error) {
        if (!(error instanceof HttpError) || !['experimentUnknown', 'experimentReadOnly'].includes(error.kind))
          throw error
        throw new HttpError('experimentNotToResume', error.message)
      }
    },
  })

  return [add, get]
}

/** True when nothing has happened since it was created. */
function isUntouched({ startTimeMs, activeAtMs, aliveAtMs }: Experiment): boolean {
  return activeAtMs === startTimeMs && aliveAtMs === null
}

function toRun(experiment: Experiment, appUrl: string): z.input<typeof runAnswer> {
  const { key, projectId, name, workspaceName, projectName } = experiment
  const project = toProjectLink(appUrl, workspaceName, projectName)
  const assets = `${appUrl}/api/rest/v2/experiment/asset/get-asset`
  return {
    runId: key,
    project_id: projectId,
    githubEnabled: true,
    focusUrl: `${project}/`,
    lastOffset: toFirstOffset(experiment),
    name,
    upload_file_size_limit_in_mb: megabytesMax,
    asset_upload_file_size_limit_in_mb: megabytesMax,
    uploadVideoMaxSizeMB: megabytesMax,
    featureToggles: [],
    cometRestApiAssetUrl: assets,
    cometRestApiImageUrl: assets,
    cometWebAssetUrl: assets,
    cometWebImageUrl: assets,
    s3DirectAccessEnabled: false,
    artifactNameMaxLength: nameLengthMax,
    assetNameMaxLength: nameLengthMax,
    imageNameMaxLength: nameLengthMax,
  }
}

/**
 * A run that goes on must not use the offsets of its earlier lines. It begins at the milliseconds since the experiment began:
 * more than it had lines, without asking a store that may lag.
 */
function toFirstOffset({ startTimeMs, activeAtMs, aliveAtMs }: Experiment): number {
  if (activeAtMs === startTimeMs && aliveAtMs === null) return 0
  // A client may have said any time.
  return Math.min(Math.max(0, Date.now() - Number(startTimeMs)), Number.MAX_SAFE_INTEGER)
}
