import { type QueryClient, queryOptions } from '@tanstack/react-query'
import { post, read, readBytes, toAddress } from './http.ts'
import { isLive } from './live.ts'

/** Everything that is read of one run. */

export type Metadata = {
  experimentKey: string
  experimentName: string
  userName: string
  projectName: string
  workspaceName: string
  filePath: string | null
  durationMillis: number
  startTimeMillis: number
  endTimeMillis: number
  archived: boolean
  running: boolean
  hasCrashed: boolean
  error?: string
  throttle: boolean
  throttleMessage?: string
  throttleReasons?: string[]
}

/** The summary of a parameter, an other or a metric. Numbers come as text, so that none is rounded. */
export type LoggedValue = {
  name: string
  valueMax: string
  valueMin: string
  valueCurrent: string
  stepMax: number | null
  stepMin: number | null
  stepCurrent: number | null
  timestampCurrent: number
}

export type Asset = {
  assetId: string
  fileName: string
  fileSize: number
  dir: string
  type: string
  step: number | null
  remote: boolean
  link: string
  createdAt: number
}

export type Git = Record<'user' | 'root' | 'branch' | 'parent' | 'origin', string | null>
export type Gpu = { gpuIndex: number; name: string; uuid: string; totalMemory: number; powerLimit: number }
export type System = {
  [name: string]: unknown
  gpuStaticInfoList: Gpu[] | null
  command: string[] | null
  installedPackages: string[] | null
  osPackages: string[] | null
  systemMetricNames: string[]
}
export type Dependency = { name: string; version: string }

/** A running run is read again this often; seldom where newer things are told. */
const liveMs = 2_000
const toldMs = 10_000
const pauseMs = () => (isLive() ? toldMs : liveMs)

const about = <Answer, Kept = Answer>(
  name: string,
  path: string,
  experimentKey: string,
  select: (answer: Answer) => Kept = (it) => it as unknown as Kept,
) =>
  queryOptions({
    queryKey: ['run', experimentKey, name],
    queryFn: async ({ signal }) => select(await read<Answer>(path, { experimentKey }, { signal })),
  })

export const isEnded = (it: Metadata | undefined) => it !== undefined && !it.running

export const metadata = (key: string) =>
  queryOptions({
    ...about<Metadata>('metadata', '/experiment/metadata', key),
    refetchInterval: ({ state }) => (isEnded(state.data) ? toldMs : pauseMs()),
  })

type Values = { values: LoggedValue[] }
export const parameters = (key: string) =>
  about<Values, LoggedValue[]>('parameters', '/experiment/parameters', key, (it) => it.values)
export const others = (key: string) =>
  about<Values, LoggedValue[]>('others', '/experiment/log-other', key, (it) => it.values)
export const metrics = (key: string) =>
  about<Values, LoggedValue[]>('metrics', '/experiment/metrics/summary', key, (it) => it.values)
export const tags = (key: string) =>
  about<{ tags: string[] }, string[]>('tags', '/experiment/tags', key, (it) => it.tags)
export const assets = (key: string) =>
  about<{ assets: Asset[] }, Asset[]>('assets', '/experiment/asset/list', key, (it) => it.assets)
export const git = (key: string) => about<Git>('git', '/experiment/git/metadata', key)
export const system = (key: string) => about<System>('system', '/experiment/system-details', key)
export const dependencies = (key: string) =>
  about<{ dependencies: Dependency[] }, Dependency[]>(
    'dependencies',
    '/experiment/dependencies',
    key,
    (it) => it.dependencies,
  )
export const code = (key: string) =>
  about<{ code: string | null }, string | null>('code', '/experiment/code', key, (it) => it.code)
export const graph = (key: string) =>
  about<{ graph: string | null }, string | null>('graph', '/experiment/graph', key, (it) => it.graph)

/** The whole output. */
export const output = (key: string) =>
  about<{ output: string }, string>('output', '/experiment/output', key, (it) => it.output)

export const live = (isRunning: boolean) => ({ refetchInterval: () => (isRunning ? pauseMs() : (false as const)) })

const growing = new Set<unknown>([
  'metadata',
  'metrics',
  'parameters',
  'others',
  'assets',
  'line count',
  'tree',
  'media',
])

/** Reads again what grows while a run goes on, and is on the page. */
export const readAgain = (client: QueryClient, experimentKey: string) =>
  client.refetchQueries(
    { queryKey: ['run', experimentKey], type: 'active', predicate: ({ queryKey }) => growing.has(queryKey[2]) },
    { cancelRefetch: false },
  )

/** The git patch; undefined when there is none. */
export const patch = (experimentKey: string) =>
  queryOptions({
    queryKey: ['run', experimentKey, 'patch'],
    queryFn: async ({ signal }) => {
      const answer = await readBytes(toAddress('/experiment/git/patch', { experimentKey }), { signal })
      const isNone = answer.headers.get('content-type')?.startsWith('application/json')
      return isNone ? null : await answer.text()
    },
  })

/** The runs of a project, in the order of their creation. */
export const runsOf = (workspaceName: string, projectName: string) =>
  queryOptions({
    queryKey: ['runs-of', workspaceName, projectName],
    queryFn: async ({ signal }) =>
      (await read<{ experiments: Metadata[] }>('/experiments', { workspaceName, projectName }, { signal })).experiments,
    staleTime: 30_000,
  })

/** The key `Name` renames a run. */
export const saveOther = (experimentKey: string, key: string, value: string) =>
  post('/write/experiment/log-other', { experimentKey, key, value })
