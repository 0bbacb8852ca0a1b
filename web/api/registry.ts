import { type QueryClient, queryOptions } from '@tanstack/react-query'
import { baseUrl, post, read } from './http.ts'
import type { Asset } from './run.ts'

/** A registered model as the list of a workspace shows it. Times are in milliseconds since the Unix epoch. */
export type ListedModel = {
  registryModelId: string
  modelName: string
  description: string
  isPublic: boolean
  userName: string
  numberOfVersions: number
  latestVersion: string | null
  /** Each stage with the highest version that has it. */
  stages: { stage: string; version: string }[]
  /** A model of this name reports to the workspace. */
  monitored: boolean
  createdAt: number
  lastUpdated: number
}

export type ModelsPage = { total: number; models: ListedModel[]; nextPage: string | null }

export type ModelsAsked = { workspaceName: string; search?: string; order?: 'name' | 'lastUpdated' }

export const readModels = (asked: ModelsAsked & { page?: string; pageSize?: number }, signal?: AbortSignal) =>
  read<ModelsPage>('/registry-model/search', asked, { signal })

export type Model = Omit<ListedModel, 'latestVersion' | 'stages'> & {
  /** Whether the reader may change it, and read its history. */
  isWritable: boolean
}

export type Version = {
  registryModelItemId: string
  version: string
  comment: string
  stages: string[]
  status: string
  userName: string
  createdAt: number
  updatedAt: number
  experimentModel: { experimentModelId: string; experimentKey: string; modelName: string }
}

export type VersionDetails = Version & { assets: Asset[] }

type Name = { workspaceName: string; modelName: string }

/** All reads of one model are below one key. */
const ofModel = ({ workspaceName, modelName }: Name, ...rest: unknown[]) => [
  'registry',
  workspaceName,
  modelName,
  ...rest,
]

export const model = (name: Name) =>
  queryOptions({
    queryKey: ofModel(name, 'model'),
    queryFn: ({ signal }) => read<Model>('/registry-model/compact-details', name, { signal }),
  })

/** The highest first. */
export const versions = (name: Name) =>
  queryOptions({
    queryKey: ofModel(name, 'versions'),
    queryFn: async ({ signal }) => (await read<{ items: Version[] }>('/registry-model/items', name, { signal })).items,
  })

export const version = (name: Name, number: string) =>
  queryOptions({
    queryKey: ofModel(name, 'version', number),
    queryFn: ({ signal }) =>
      read<VersionDetails>('/registry-model/item/details', { ...name, version: number }, { signal }),
  })

/** What a program has attached to a version, by key. */
export const versionMetadata = (versionId: string) =>
  queryOptions({
    queryKey: ['registry-metadata', versionId],
    queryFn: async ({ signal }) =>
      (
        await read<{ metadata: { key: string; value: unknown }[] }>(
          `/registry-model/item/${encodeURIComponent(versionId)}/metadata`,
          {},
          { signal },
        )
      ).metadata,
  })

/** In Markdown. */
export const modelNotes = (name: Name) =>
  queryOptions({
    queryKey: ofModel(name, 'notes'),
    queryFn: async ({ signal }) => (await read<{ notes: string }>('/registry-model/notes', name, { signal })).notes,
  })

export const allowedStatuses = (workspaceName: string) =>
  queryOptions({
    queryKey: ['registry-statuses', workspaceName],
    queryFn: async ({ signal }) =>
      (await read<{ allowedStatus: string[] }>('/registry-model/allowed_status_values', { workspaceName }, { signal }))
        .allowedStatus,
  })

/** A change of the registry. */
export type Change = {
  action: string
  registryModelName: string
  version: string | null
  userName: string
  timestamp: number
  /** The old and the new values of the fields that were changed. */
  before: Record<string, unknown>
  after: Record<string, unknown>
}

type VersionChange = {
  actionType: string
  registryModelName: string
  registryModelItemVersion: string | null
  previousValue: Record<string, unknown>
  newValue: Record<string, unknown>
  userName: string
  timestamp: number
}

/** The changes of one version, the newest first. */
export const versionHistory = (name: Name, registryModelItemId: string) =>
  queryOptions({
    queryKey: ofModel(name, 'history', registryModelItemId),
    queryFn: async ({ signal }) => {
      const days = await post<Record<string, VersionChange[]>>(
        '/registry-model/history/item',
        { registryModelItemId },
        { signal },
      )
      return Object.values(days)
        .flat()
        .map(
          (it): Change => ({
            action: it.actionType,
            registryModelName: it.registryModelName,
            version: it.registryModelItemVersion,
            userName: it.userName,
            timestamp: it.timestamp,
            before: it.previousValue,
            after: it.newValue,
          }),
        )
    },
  })

type ChangesPage = { events: Change[]; nextPage: string | null }

export const readHistory = (name: Name, page: string | undefined, signal: AbortSignal) =>
  read<ChangesPage>('/registry-model/history', { ...name, page, pageSize: 50 }, { signal })

export const historyKey = (name: Name) => ofModel(name, 'history')

/** The address of a file of a version. */
export const fileUrl = (modelItemId: string, assetId: string) =>
  toUrl('registry-model/item/get-asset', { modelItemId, assetId })

/** The address of all files of a version, as a zip. */
export const zipUrl = (name: Name, number: string) =>
  toUrl('registry-model/item/download', { ...name, version: number })

const toUrl = (path: string, query: Record<string, string>) =>
  new URL(`api/rest/v2/${path}?${new URLSearchParams(query)}`, baseUrl).href

/** Reads again what a change of a model may have changed. */
export const refreshModel = (client: QueryClient, { workspaceName, modelName }: Name) =>
  Promise.all([
    client.invalidateQueries({ queryKey: ['registry', workspaceName, modelName] }),
    client.invalidateQueries({ queryKey: ['registry-models', workspaceName] }),
    client.invalidateQueries({ queryKey: ['webhook-deliveries', workspaceName] }),
  ])

export const updateModel = (
  registryModelId: string,
  it: { registryModelName?: string; description?: string; isPublic?: boolean },
) => post('/write/registry-model/update', { registryModelId, ...it })

export const saveModelNotes = ({ workspaceName, modelName }: Name, notes: string) =>
  post('/write/registry-model/notes', { workspaceName, registryModelName: modelName, notes })

export const deleteModel = (name: Name) => read('/write/registry-model/delete', name)

export const deleteVersion = (modelItemId: string) => read('/write/registry-model/item/delete', { modelItemId })

export const addStage = (modelItemId: string, stage: string) =>
  read('/write/registry-model/item/stage', { modelItemId, stage })

export const removeStage = (modelItemId: string, stage: string) =>
  read('/write/registry-model/item/stage/delete', { modelItemId, stage })

export const updateVersion = (registryModelItemId: string, it: { comment?: string; stages?: string[] }) =>
  post('/write/registry-model/item/update', { registryModelItemId, ...it })

export const setStatus = (modelItemId: string, status: string) =>
  post('/write/registry-model/item/status', { modelItemId, status })

/** A model that a run has logged: files of type `model-element` that have one grouping name. */
export type LoggedModel = {
  experimentModelId: string
  modelName: string
  /** The registered versions that were made from it. */
  registryRecords: { registryModelItemId: string; registryModelName: string; version: string }[]
}

export const loggedModels = (experimentKey: string) =>
  queryOptions({
    queryKey: ['run', experimentKey, 'models'],
    queryFn: async ({ signal }) =>
      (await read<{ models: LoggedModel[] }>('/experiment/model', { experimentKey }, { signal })).models,
  })

export type Registration = {
  experimentModelId: string
  registryModelName: string
  version: string
  comment: string
  stages: string[]
}

/** Registers a model of a run as a new registered model, with its first version. */
export const registerModel = (it: Registration & { description: string; isPublic: boolean }) =>
  post('/write/registry-model', it)

/** Registers a model of a run as the next version of a registered model. */
export const registerVersion = (it: Registration) => post('/write/registry-model/item', it)
