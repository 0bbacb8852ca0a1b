import type { TestClient } from '../http/client.ts'
import { uniqueName } from '../service.ts'
import { aForm, createAssetClient } from './assets.ts'

type Service = { url: string; apiKey: string; workspaceName: string; client: TestClient }

/** A model of an experiment. */
export type Source = { experimentKey: string; modelName: string; experimentModelId: string }

/** A registered version, as it was answered. */
type Registered = { registryModelId: string; registryModelItemId: string }

/** A workspace's model registry, and models of experiments to register. */
export function createRegistryClient(service: Service) {
  const { client, workspaceName } = service
  const assets = createAssetClient(service)

  /** A model with these files, by name. */
  async function aSource(files: Record<string, Uint8Array<ArrayBuffer>> = { 'model.bin': Buffer.from('weights') }) {
    const experimentKey = await client.createExperiment({ projectName: uniqueName('project') })
    const modelName = uniqueName('source')
    for (const [fileName, bytes] of Object.entries(files)) await addFile({ experimentKey, modelName }, fileName, bytes)
    const { body } = await client.get(`/experiment/model?experimentKey=${experimentKey}`)
    const [model] = body.models as Source[]
    return model as Source
  }

  async function addFile(
    { experimentKey, modelName }: Pick<Source, 'experimentKey' | 'modelName'>,
    fileName: string,
    bytes: Uint8Array<ArrayBuffer>,
    more: Record<string, string> = {},
  ): Promise<string> {
    const query = { experimentKey, type: 'model-element', groupingName: modelName, fileName, ...more }
    const answer = await assets.upload(query, aForm(bytes))
    if (answer.status !== 200) throw new Error(`upload-asset answered ${answer.status}: ${answer.text}`)
    return answer.body.assetId as string
  }

  const post = (path: string, body: Record<string, unknown>) => client.post(path, body)
  const get = (path: string, query: Record<string, string>) => client.get(`${path}?${new URLSearchParams(query)}`)

  /** A registered model of a name of its own. */
  async function aModel(fields: Record<string, unknown> = {}, source?: Source) {
    const { experimentModelId } = source ?? (await aSource())
    const registryModelName = (fields.registryModelName as string | undefined) ?? uniqueName('model')
    const answer = await post('/write/registry-model', { experimentModelId, registryModelName, ...fields })
    if (answer.status !== 200) throw new Error(`registry-model answered ${answer.status}: ${answer.text}`)
    const { registryModelId, registryModelItemId } = answer.body as Registered
    return { registryModelName, experimentModelId, registryModelId, registryModelItemId }
  }

  return {
    assets,
    aSource,
    addFile,
    aModel,
    post,
    /** Writes that are GETs. */
    change: (path: string, query: Record<string, string>) => get(path, query),
    /** Reads about a model. */
    read: (path: string, modelName: string, more: Record<string, string> = {}) =>
      get(path, { workspaceName, modelName, ...more }),
    download: (modelName: string, more: Record<string, string> = {}) =>
      assets.readPath(`/registry-model/item/download?${new URLSearchParams({ workspaceName, modelName, ...more })}`),

    /** The versions of a model, the highest last. */
    async listVersions(modelName: string): Promise<string[]> {
      const { body } = await get('/registry-model/details', { workspaceName, modelName })
      return (body.versions as { version: string }[]).map((it) => it.version)
    },
  }
}
