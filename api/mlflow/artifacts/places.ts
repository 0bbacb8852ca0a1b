import { createHash } from 'node:crypto'
import { checkFields, object } from '../../../http/body/fields.ts'
import { HttpError } from '../../../http/errors.ts'
import { modelElement } from '../../../store/postgres/assets/assets.ts'
import type { Database } from '../../../store/postgres/database.ts'
import { type FilesOf, findModelOfPath } from '../../../store/postgres/mlflow/artifacts.ts'
import type { LoggedModel } from '../../../store/postgres/mlflow/logged-models.ts'
import type { MlflowRun } from '../../../store/postgres/mlflow/runs.ts'
import { assetFields } from '../../assets/fields.ts'
import { findFacts } from '../../registry/find.ts'
import type { ExperimentFinder, MlflowCall } from '../find.ts'
import type { LoggedModelFinder } from '../models/find.ts'

/**
 * What the paths of artifacts are: `<where its experiment has them>/<run>/artifacts/<path of the file>`, or
 * `models/<logged model>` or `versions/<registered version>` instead of the run. Each is known by its own name, so the rest before it does not matter: a run that
 * was moved keeps its addresses.
 */
type Owner = { runId: string } | { modelId: string } | { versionId: string }
type Named = { owner: Owner; path: string }

const places = /^(?:.*?\/)??((?:models|versions)\/)?([^/]+)\/artifacts(?:\/(.*))?$/

/** @throws HttpError `badRequest` */
export function parseArtifactPath(given: string): Named {
  const [, kind, id, path = ''] = places.exec(given) ?? []
  if (id === undefined) {
    throw new HttpError('badRequest', 'path: expected EXPERIMENT/RUN/artifacts and the path of a file')
  }
  const owner = kind === undefined ? { runId: id } : kind === 'models/' ? { modelId: id } : { versionId: id }
  return { owner, path: checkPath(path) }
}

/** @throws HttpError `badRequest` for what would leave the folder that a client has it in */
export function checkPath(given: string): string {
  const path = given.replace(/\/+$/, '')
  if (path === '') return path
  const isPath = path.split('/').every((it) => !['', '.', '..'].includes(it)) && !/[\\#]/.test(path)
  if (!isPath) throw new HttpError('badRequest', 'path: must have no part that is empty, `.` or `..`, and no \\ or #')
  return path
}

/** Where a file is kept, or is to be. */
export type WritablePlace = {
  run: MlflowRun
  fields: { id: string; type: string; fileName: string; groupingName?: string }
}

export type ArtifactPlaces = ReturnType<typeof createArtifactPlaces>

type Deps = { database: Database; find: ExperimentFinder; models: LoggedModelFinder }

export function createArtifactPlaces({ database, find, models }: Deps) {
  const toFilesOf = ({ experimentId, groupingName }: LoggedModel) => ({ experimentId, modelName: groupingName })

  return {
    /** Files to read. @throws HttpError for what the caller may not read */
    async readable(call: MlflowCall, given: string): Promise<{ of: FilesOf; path: string }> {
      const { owner, path } = parseArtifactPath(given)
      if ('modelId' in owner) return { of: toFilesOf(await models.readable(call, owner.modelId)), path }
      if ('versionId' in owner) {
        // Only for its check of who asks.
        await findFacts(database, call.caller, owner.versionId)
        return { of: owner, path }
      }
      const run = await find.run(call, owner.runId)
      return { of: { experimentId: run.id }, path }
    },

    /** Files to change. */
    async changeable(call: MlflowCall, given: string): Promise<{ run: MlflowRun; of: FilesOf; path: string }> {
      const { owner, path } = parseArtifactPath(given)
      if ('modelId' in owner) {
        const { model, run } = await models.writable(call, owner.modelId)
        return { run, of: toFilesOf(model), path }
      }
      if ('versionId' in owner) throw finalVersion()
      const run = await find.activeRun(call, owner.runId)
      return { run, of: { experimentId: run.id }, path }
    },

    /** Where to keep a file. The same path is the same asset: it is replaced. */
    async toKeep(call: MlflowCall, given: string): Promise<WritablePlace> {
      const { owner, path } = parseArtifactPath(given)
      if (path === '' || given.endsWith('/'))
        throw new HttpError('badRequest', 'path: must end with the name of a file')
      checkFields(object({ path: assetFields.fileName }), { path })
      if ('modelId' in owner) {
        const { model, run } = await models.writable(call, owner.modelId)
        return { run, fields: { id: toId(model.id, path), ...toFields(path, model.groupingName) } }
      }
      if ('versionId' in owner) throw finalVersion()
      const run = await find.activeRun(call, owner.runId)
      const modelName = await findModelOfPath(database, run.id, path)
      const inModel = modelName === undefined ? path : path.slice(modelName.length + 1)
      return { run, fields: { id: toId(run.key, path), ...toFields(inModel, modelName) } }
    },
  }
}

const toFields = (fileName: string, groupingName: string | undefined) =>
  groupingName === undefined ? { type: 'asset', fileName } : { type: modelElement, fileName, groupingName }

const toId = (owner: string, path: string) =>
  createHash('sha256').update(`${owner}/artifacts/${path}`).digest('hex').slice(0, 32)

const finalVersion = () => new HttpError('badRequest', 'path: the files of a registered version stay as they are')
