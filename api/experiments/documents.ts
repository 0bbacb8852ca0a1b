import { text as readAsText } from 'node:stream/consumers'
import { z } from 'zod'
import { bodyBytesMaxDefault, tooLarge } from '../../http/body/body.ts'
import {
  experimentKey,
  flag,
  int64,
  list,
  loggedText,
  object,
  optional,
  text,
  timestampMs,
} from '../../http/body/fields.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { readResources } from '../../store/clickhouse/points/resources.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import { listAssets } from '../../store/postgres/assets/assets.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  appendDocument,
  type DocumentKind,
  findDocument,
  mergeDocument,
  mergeSystemDetails,
  upsertDocument,
} from '../../store/postgres/experiments/documents.ts'
import { updateFilePath, updateOutcome } from '../../store/postgres/experiments/experiments.ts'
import type { Heartbeats } from '../../store/postgres/experiments/heartbeats.ts'
import type { Access } from '../access.ts'
import type { RateLimitedWrite } from '../rate-limited-write.ts'

const topic = 'Experiments: documents and details'

const documentBytesMax = 16 * 1024 * 1024
/** JSON may write one byte as six (`\u0001`). This limit admits the largest text if most of it needs no escapes. */
const documentBodyBytesMax = documentBytesMax + bodyBytesMaxDefault
const packagesMax = 50_000
/** In the metadata of the script that made the experiment, among other files of code. */
const scriptMark = '"experiment_creation"'

const savedAnswer = z.object({ msg: z.literal('Saved') })
const line = text(10_000)
const integer = int64.refine((value) => typeof value === 'number', 'expected an integer up to 2^53-1')

const gpu = object({ gpuIndex: integer, name: line, uuid: line, totalMemory: integer, powerLimit: integer })

const systemFields = {
  user: optional(line),
  pythonVersion: optional(line),
  pythonVersionVerbose: optional(line),
  pid: optional(integer),
  osType: optional(line),
  os: optional(line),
  osRelease: optional(line),
  machine: optional(line),
  processor: optional(line),
  ip: optional(line),
  hostname: optional(line),
  gpuStaticInfoList: optional(list(gpu, 4_096)),
  logAdditionalSystemInfoList: optional(list(object({ key: line, value: loggedText.pipe(line) }), 10_000)),
  networkInterfaceIps: optional(list(line, 1_000)),
  command: optional(list(line, 10_000)),
  executable: optional(line),
  osPackages: optional(list(line, packagesMax)),
  installedPackages: optional(list(line, packagesMax)),
}

const textOrNull = z.string().nullable()
const textsOrNull = z.array(z.string()).nullable()

const systemAnswer = z.object({
  user: textOrNull,
  pythonVersion: textOrNull,
  pythonVersionVerbose: textOrNull,
  pid: z.int().nullable(),
  osType: textOrNull,
  os: textOrNull,
  osRelease: textOrNull,
  machine: textOrNull,
  processor: textOrNull,
  ip: textOrNull,
  hostname: textOrNull,
  gpuStaticInfoList: z
    .array(
      z.object({
        gpuIndex: z.int(),
        name: z.string(),
        uuid: z.string(),
        totalMemory: z.int(),
        powerLimit: z.int(),
      }),
    )
    .nullable(),
  logAdditionalSystemInfoList: z.array(z.object({ key: z.string(), value: z.string() })).nullable(),
  networkInterfaceIps: textsOrNull,
  command: textsOrNull,
  executable: textOrNull,
  osPackages: textsOrNull,
  installedPackages: textsOrNull,
  systemMetricNames: z.array(z.string()),
  maxTotalMemory: z.number().nullable().describe('bytes of the largest GPU'),
  totalRam: z.number().nullable().describe('bytes'),
})
type SystemDetails = z.input<typeof systemAnswer>

const gitFields = {
  user: optional(line),
  root: optional(line),
  branch: optional(line),
  parent: optional(line),
  origin: optional(line),
}
const noGit = { user: null, root: null, branch: null, parent: null, origin: null }

const dependency = object({ name: text(1_000, 1), version: line })

type Deps = {
  database: Database
  clickhouse: ClickHouse
  objects: ObjectStore
  access: Access
  heartbeats: Heartbeats
  rateLimited: RateLimitedWrite
}

/** Texts and system details: an experiment has one of each. */
export function createDocumentRoutes({
  database,
  clickhouse,
  objects,
  access,
  heartbeats,
  rateLimited,
}: Deps): Route[] {
  /** Checks the permission and the rate limit of a write, and records the activity. */
  async function save(caller: Caller, key: string, write: (experimentId: bigint) => Promise<void>) {
    const experiment = await access.writableExperiment(caller, key)
    await rateLimited('other', experiment, caller, () => write(experiment.id))
    heartbeats.active(experiment.id, Date.now())
    return { msg: 'Saved' as const }
  }

  function write<Fields extends z.ZodRawShape>(
    name: string,
    summary: string,
    fields: Fields,
    keep: (experimentId: bigint, body: z.output<z.ZodObject<Fields>>) => Promise<void>,
    method: 'POST' | 'PUT' = 'POST',
  ): Route {
    return route({
      method,
      path: `/write/experiment/${name}`,
      charge: 'own',
      permission: 'caller',
      topic,
      summary,
      body: object({ experimentKey, ...fields }),
      answer: savedAnswer,
      shape: 'envelope',
      bodyBytesMax: documentBodyBytesMax,
      async handle({ body, caller }) {
        const { experimentKey: key, ...rest } = body as { experimentKey: string }
        return await save(caller, key, (id) => keep(id, rest as z.output<z.ZodObject<Fields>>))
      },
    })
  }

  function read<Answer extends z.ZodType>(
    name: string,
    summary: string,
    answer: Answer,
    find: (experimentId: bigint) => Promise<z.input<Answer>>,
  ): Route {
    return route({
      method: 'GET',
      path: `/experiment/${name}`,
      permission: 'reader',
      topic,
      summary,
      query: object({ experimentKey }),
      answer,
      shape: 'plain',
      async handle({ query, caller }) {
        const experiment = await access.experiment(caller, query.experimentKey)
        return await find(experiment.id)
      },
    })
  }

  /** A text that is stored byte for byte and replaces the earlier one. */
  function writeText<Name extends 'code' | 'graph'>(name: Name, summary: string): Route {
    return write(name, summary, { [name]: text(documentBytesMax) }, async (id, body) => {
      const content = (body as Record<Name, string>)[name]
      refuseTooLarge(content)
      await upsertDocument(database, id, name, content)
    })
  }

  const readText = (name: 'html' | 'graph', summary: string) =>
    read(name, summary, z.object({ [name]: z.string().nullable() }), async (id) => ({
      [name]: (await findDocument(database, id, name)) ?? null,
    }))

  async function readScript(experimentId: bigint): Promise<string | null> {
    const sources = await listAssets(database, experimentId, { type: 'source_code' })
    const script = sources.findLast((it) => it.metadata?.includes(scriptMark) && it.size <= documentBytesMax)
    if (!script?.objectKey) return null
    return await readAsText(await objects.get(script.objectKey))
  }

  async function readJson(experimentId: bigint, kind: DocumentKind): Promise<unknown> {
    const content = await findDocument(database, experimentId, kind)
    return content === undefined ? undefined : JSON.parse(content)
  }

  return [
    write(
      'html',
      'Logs HTML: appends to the stored HTML, or replaces it if `override` is true.',
      { html: text(documentBytesMax), override: optional(flag), timestamp: optional(timestampMs) },
      async (id, { html, override }) => {
        refuseTooLarge(html)
        if (override) return await upsertDocument(database, id, 'html', html)
        if (!(await appendDocument(database, id, 'html', html, documentBytesMax))) throw tooLarge(documentBytesMax)
      },
    ),
    readText('html', 'Reads the HTML, or null.'),
    writeText('code', 'Logs the source code.'),
    read(
      'code',
      'Reads the source code: as it was logged, else the script as a client uploaded it; null when there is neither.',
      z.object({ code: z.string().nullable() }),
      async (id) => ({ code: (await findDocument(database, id, 'code')) ?? (await readScript(id)) }),
    ),
    writeText('graph', 'Logs the graph of the model.'),
    readText('graph', 'Reads the graph of the model; null when there is none.'),

    write(
      'git/metadata',
      'Logs the git user, root, branch, commit and origin of the code. Absent fields stay the same.',
      gitFields,
      (id, git) => mergeDocument(database, id, 'git', git),
    ),
    read(
      'git/metadata',
      'Reads the git user, root, branch, commit and origin of the code.',
      z.object({ user: textOrNull, root: textOrNull, branch: textOrNull, parent: textOrNull, origin: textOrNull }),
      async (id) => ({ ...noGit, ...((await readJson(id, 'git')) as object) }),
    ),

    write(
      'system-details',
      'Logs the system details of an experiment. Absent fields stay the same, and so do other keys of the additional ' +
        'information.',
      systemFields,
      (id, details) => mergeSystemDetails(database, id, details),
    ),
    read(
      'system-details',
      'Reads the system details of an experiment and the names of its resource metrics.',
      systemAnswer,
      async (id) => {
        const nothing = Object.fromEntries(Object.keys(systemFields).map((name) => [name, null]))
        const details = (await readJson(id, 'system')) as Partial<SystemDetails> | undefined
        return { ...nothing, ...details, ...(await readResources(clickhouse, id)) } as SystemDetails
      },
    ),

    write(
      'cloud-details',
      'Logs the cloud details of an experiment.',
      { provider: line, metadata: optional(z.record(text(1_000), line)) },
      (id, { provider, metadata }) =>
        upsertDocument(database, id, 'cloud', JSON.stringify({ provider, metadata: metadata ?? {} })),
    ),
    read(
      'cloud-details',
      'Reads the cloud details of an experiment, or null.',
      z.object({ provider: textOrNull, metadata: z.record(z.string(), z.string()) }),
      async (id) => ({ provider: null, metadata: {}, ...((await readJson(id, 'cloud')) as object) }),
    ),

    write(
      'file-path',
      'Logs the path of the file that started the experiment.',
      { filePath: line },
      (id, { filePath }) => updateFilePath(database, id, filePath),
    ),

    write(
      'dependencies',
      'Logs the packages of the experiment and replaces the earlier ones.',
      { logDependencies: list(dependency, packagesMax) },
      (id, { logDependencies }) => upsertDocument(database, id, 'dependencies', JSON.stringify(logDependencies)),
      'PUT',
    ),
    read(
      'dependencies',
      'Reads the packages the experiment runs with.',
      z.object({ dependencies: z.array(z.object({ name: z.string(), version: z.string() })) }),
      async (id) => ({
        dependencies: ((await readJson(id, 'dependencies')) ?? []) as { name: string; version: string }[],
      }),
    ),

    write(
      'update-status',
      'Reports that an experiment is running, or how it ended.',
      { isAlive: flag, error: optional(text(100_000)), hasCrashed: optional(flag) },
      (id, { isAlive, error, hasCrashed }) =>
        updateOutcome(database, id, { isAlive, error, hasCrashed, nowMs: Date.now() }),
    ),
  ]
}

function refuseTooLarge(content: string) {
  if (Buffer.byteLength(content) > documentBytesMax) throw tooLarge(documentBytesMax)
}
