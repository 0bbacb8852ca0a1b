import { HttpError } from '../../../http/errors.ts'
import { lockAssets } from '../../../store/postgres/assets/assets.ts'
import type { Queries } from '../../../store/postgres/database.ts'
import { ensureModelOfPath, findExperimentModelId } from '../../../store/postgres/mlflow/artifacts.ts'
import type { RegistryVersion, VersionSource } from '../../../store/postgres/registry/versions.ts'
import { findSource } from '../../registry/register.ts'
import { parseArtifactPath } from '../artifacts/places.ts'
import type { ExperimentFinder, MlflowCall } from '../find.ts'
import type { LoggedModelFinder } from '../models/find.ts'
import type { RegistryFinder } from './find.ts'

/** What a client registers, by the address that it has for it. */
type Found =
  | { of: 'path'; experimentId: bigint; path: string }
  | { of: 'loggedModel'; experimentId: bigint; groupingName: string; modelId: string }
  | { of: 'version'; version: RegistryVersion }

const artifactUri = /^(?:mlflow-artifacts:(?:\/\/[^/]*)?|https?:\/\/[^?#]*\/mlflow-artifacts\/artifacts)\/+([^?#]+)$/

type Deps = { find: ExperimentFinder; models: LoggedModelFinder; registry: RegistryFinder }

export function createVersionSources({ find, models, registry }: Deps) {
  async function loggedModel(call: MlflowCall, id: string): Promise<Found> {
    const { model } = await models.writable(call, id)
    return { of: 'loggedModel', experimentId: model.experimentId, groupingName: model.groupingName, modelId: model.id }
  }

  async function ofRun(call: MlflowCall, runId: string, path: string): Promise<Found> {
    if (path === '') throw new HttpError('badRequest', 'source: expected the folder of a model, not all of a run')
    return { of: 'path', experimentId: (await find.activeRun(call, runId)).id, path }
  }

  return {
    /** @throws HttpError `badRequest` for an address whose files this service does not keep */
    async find(call: MlflowCall, source: string, modelId: string): Promise<Found> {
      const [, name, version] = /^models:\/+([^/@]+)\/(\d+(?:\.\d+\.\d+)?)$/.exec(source) ?? []
      if (name && version) return { of: 'version', version: await registry.version(call, name, version) }
      const named = /^models:\/+(m-[^/@]+)$/.exec(source)?.[1] ?? modelId
      if (named !== '') return await loggedModel(call, named)
      const [, runId, below = ''] = /^runs:\/+([^/]+)\/(.+)$/.exec(source) ?? []
      if (runId) return await ofRun(call, runId, below)
      const given = artifactUri.exec(source)?.[1]
      if (given === undefined) {
        throw new HttpError(
          'badRequest',
          'source: expected a model that this service keeps: runs:/RUN/PATH, models:/NAME/VERSION, models:/m-... or ' +
            'mlflow-artifacts:/...',
        )
      }
      const { owner, path } = parseArtifactPath(decodeURIComponent(given))
      if ('runId' in owner) return await ofRun(call, owner.runId, path)
      if ('modelId' in owner && path === '') return await loggedModel(call, owner.modelId)
      throw new HttpError(
        'badRequest',
        'source: expected the folder of a model; write a version as models:/NAME/VERSION',
      )
    },

    /** Locks what is registered, in the transaction that registers it. */
    async lock(
      queries: Queries,
      { caller }: MlflowCall,
      found: Found,
    ): Promise<{ source: VersionSource; workspaceName: string | undefined }> {
      if (found.of === 'version') {
        const { id: versionId, experimentModelId: id, experimentModelName: name, experimentKey } = found.version
        return { source: { id, name, experimentKey, versionId }, workspaceName: undefined }
      }
      await lockAssets(queries, found.experimentId)
      const id =
        found.of === 'path'
          ? await ensureModelOfPath(queries, found.experimentId, found.path)
          : await findExperimentModelId(queries, found.experimentId, found.groupingName)
      if (id === undefined) {
        throw new HttpError('badRequest', 'source: there are no files; upload the model before you register it')
      }
      const source = await findSource(queries, caller, id)
      return { source, workspaceName: source.workspaceName }
    },
  }
}

export type VersionSources = ReturnType<typeof createVersionSources>
