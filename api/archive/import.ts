import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { extract as createExtract, type Extract, type Header } from 'tar-stream'
import { z } from 'zod'
import { text } from '../../http/body/fields.ts'
import { HttpError } from '../../http/errors.ts'
import { insertLogged, type LoggedTable, loggedTables, WrongRow } from '../../store/clickhouse/archive/rows.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { createObjectKey } from '../../store/objects/object-key.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import { archiveTables } from '../../store/postgres/archive/tables.ts'
import type { OrphanedObjects } from '../assets/orphaned-objects.ts'
import {
  archiveFormat,
  archiveVersion,
  headMember,
  linesBytesMax,
  linesNamePattern,
  objectNamePattern,
  sumsBytesMax,
  sumsMember,
  tablesBytesMax,
  withRows,
} from './members.ts'
import { createRowCheck, type RowCheck, timeText, WrongArchive } from './rows.ts'

const headSchema = z.object({
  format: z.literal(archiveFormat),
  id: z.uuid(),
  project: z.strictObject({
    id: text(100, 1),
    name: text(100, 1),
    description: text(100_000),
    isPublic: z.boolean(),
    archived: z.boolean(),
    notes: text(16 * 1024 * 1024),
    owner: text(1_000, 1),
    createdAt: timeText,
    updatedAt: timeText,
  }),
})

export type ArchiveHead = z.output<typeof headSchema>

export type TableMember = { name: string; table: (typeof archiveTables)[number]; content: Buffer }

/** What becomes of an archive while it arrives. */
export type Import = {
  /** The first member has arrived. */
  begin(head: ArchiveHead): Promise<void>
  /** All rows of Postgres have arrived, and are right. @returns the ids of its experiments here */
  prepare(members: TableMember[], check: RowCheck): Promise<bigint[]>
  /** Called before each further member is stored. */
  goOn(): Promise<void>
  /** Everything has arrived, and is as the archive's checksums say. @param objectKeys by their numbers */
  commit(members: TableMember[], objectKeys: Map<number, string>): Promise<void>
}

type Deps = {
  clickhouse: ClickHouse
  objects: ObjectStore
  orphanedObjects: OrphanedObjects
  limits: { fileBytesMax: number; ofTypeMax(type: string): number }
}

/**
 * Reads an archive to its end. Only `commit` makes anything of it visible: until then the bytes are orphaned objects, and rows in
 * ClickHouse belong to experiments that do not exist.
 *
 * @throws HttpError that names the member at fault; then all objects are deleted again
 */
export async function readArchive(
  { clickhouse, objects: store, orphanedObjects, limits }: Deps,
  content: Readable,
  target: Import,
): Promise<void> {
  const sums = new Map<string, string>()
  const members: TableMember[] = []
  const objectKeys = new Map<number, string>()
  const check = createRowCheck(limits)
  let head: ArchiveHead | undefined
  let experimentIds: bigint[] | undefined
  let tablesBytes = 0
  let isWhole = false
  let name = headMember

  async function readMember(header: Header, entry: Readable) {
    if (header.type !== 'file') throw new WrongArchive('is not a file')
    if (isWhole) throw new WrongArchive(`comes after ${sumsMember}`)
    if (sums.has(name)) throw new WrongArchive('is there twice')
    if (!head) {
      if (name !== headMember) throw new WrongArchive(`must be ${headMember}: this is not the archive of a project`)
      head = parseHead(await readWhole(entry, 128 * 1024 * 1024))
      return await target.begin(head)
    }
    if (name === sumsMember) {
      await prepare()
      compareSums((await readWhole(entry, sumsBytesMax)).toString())
      isWhole = true
      return
    }
    const [, folder, table] = linesNamePattern.exec(name) ?? []
    if (folder === 'tables') return await readTable(table as string, entry)
    if (folder === 'logged' && Object.hasOwn(loggedTables, table as string)) {
      const ids = await prepare()
      await target.goOn()
      return await withRows(read(entry, linesBytesMax), (rows) =>
        insertLogged(clickhouse, table as LoggedTable, rows, ids),
      )
    }
    const [, number] = objectNamePattern.exec(name) ?? []
    if (number === undefined) throw new WrongArchive('is no member of this version of archives')
    await prepare()
    await target.goOn()
    await readObject(Number(number), entry)
  }

  async function readTable(tableName: string, entry: Readable) {
    const table = archiveTables.find((it) => it.name === tableName)
    if (!table) throw new WrongArchive('is no table of this version of archives')
    if (experimentIds) throw new WrongArchive('comes after what was logged')
    const last = members.at(-1)?.table ?? table
    if (archiveTables.indexOf(table) < archiveTables.indexOf(last)) throw new WrongArchive(`comes after ${last.name}`)
    const bytes = await readWhole(entry, linesBytesMax)
    tablesBytes += bytes.length
    if (tablesBytes > tablesBytesMax) throw new WrongArchive(`all tables must have ${tablesBytesMax} bytes or fewer`)
    await withRows([bytes], async (parts) => {
      let at = 0
      for await (const rows of parts) for (const row of rows) checkRow(table, row, ++at)
    })
    members.push({ name, table, content: bytes })
  }

  function checkRow(table: TableMember['table'], row: unknown, line: number) {
    try {
      check.checkRow(table, row)
    } catch (error) {
      throw error instanceof WrongArchive ? new WrongArchive(`line ${line}: ${error.message}`) : error
    }
  }

  async function prepare() {
    experimentIds ??= await target.prepare(members, check)
    return experimentIds
  }

  async function readWhole(entry: Readable, bytesMax: number): Promise<Buffer> {
    const chunks: Buffer[] = []
    for await (const chunk of read(entry, bytesMax)) chunks.push(chunk)
    return Buffer.concat(chunks)
  }

  /** The bytes of a member, whose checksum is known once they have been read. */
  async function* read(entry: Readable, bytesMax: number): AsyncGenerator<Buffer> {
    let bytes = 0
    const hash = createHash('sha256')
    for await (const chunk of entry as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (bytes > bytesMax) throw new WrongArchive(`must have ${bytesMax} bytes or fewer`)
      hash.update(chunk)
      yield chunk
    }
    sums.set(name, hash.digest('hex'))
  }

  async function readObject(number: number, entry: Readable) {
    const expected = check.objects.get(number)
    if (!expected) throw new WrongArchive('no asset refers to it')
    const objectKey = createObjectKey()
    await orphanedObjects.announce(objectKey)
    objectKeys.set(number, objectKey)
    const stored = await store.put(objectKey, entry)
    if (stored.bytes !== expected.bytes || stored.sha256 !== expected.sha256) {
      throw new WrongArchive('is damaged: its bytes differ from those of the asset')
    }
    sums.set(name, stored.sha256)
  }

  function compareSums(given: string) {
    const lines = given.split('\n').filter((it) => it !== '')
    const listed = new Map(lines.map((it) => [it.slice(66), it.slice(0, 64)]))
    for (const [member, sha256] of sums) {
      if (member === sumsMember || listed.get(member) === sha256) continue
      name = member
      throw new WrongArchive(`is damaged: its checksum differs from that in ${sumsMember}`)
    }
    const missing = [...listed.keys()].find((it) => !sums.has(it))
    if (missing !== undefined) {
      name = missing
      throw new WrongArchive('is missing')
    }
    const absent = [...check.objects.keys()].find((it) => !objectKeys.has(it))
    if (absent !== undefined) throw new WrongArchive(`the bytes of object ${absent} are missing`)
  }

  try {
    for await (const { header, entry } of readTar(content)) {
      name = header.name
      await readMember(header, entry)
    }
    if (!isWhole) throw new WrongArchive(`is the last member that arrived: the archive is cut off`)
    await target.commit(members, objectKeys)
  } catch (error) {
    for (const objectKey of objectKeys.values()) await orphanedObjects.drop(objectKey)
    if (error instanceof WrongArchive || error instanceof WrongRow) {
      const line = error instanceof WrongRow ? `line ${error.row + 1}: ` : ''
      throw new HttpError('badRequest', `${name}: ${line}${error.message}. Nothing was imported.`)
    }
    throw error
  }
}

function parseHead(content: Buffer): ArchiveHead {
  let head: { format?: unknown; version?: unknown } | null
  try {
    head = JSON.parse(content.toString())
  } catch {
    throw new WrongArchive('is damaged: it is not JSON')
  }
  if (head?.format !== archiveFormat) throw new WrongArchive('format: this is not the archive of a project')
  if (head.version !== archiveVersion) {
    throw new WrongArchive(
      `version: this server reads archives of version ${archiveVersion}, not ${JSON.stringify(head.version)?.slice(0, 20)}: update it`,
    )
  }
  const read = headSchema.safeParse(head)
  if (read.success) return read.data
  const [issue] = read.error.issues
  throw new WrongArchive(`${issue?.path.join('.')}: ${issue?.message}`)
}

/** The members in their order. Each must be read before the next one comes. */
async function* readTar(content: Readable): AsyncGenerator<{ header: Header; entry: Readable }> {
  const extract = createExtract()
  const feeding = (async () => {
    for await (const chunk of content) if (!extract.write(chunk)) await writable(extract)
    extract.end(undefined)
  })().catch((error: Error) => extract.destroy(error))

  /** The library's own errors have no class and no code. */
  const explain = (error: unknown) => {
    if (content.errored) return content.errored
    return new WrongArchive(`here the archive is damaged or cut off (${(error as Error).message})`)
  }
  async function* readEntry(source: AsyncIterable<Buffer>) {
    try {
      yield* source
    } catch (error) {
      throw explain(error)
    }
  }

  const sources = extract[Symbol.asyncIterator]()
  try {
    for (;;) {
      const next = await sources.next().catch((error: unknown) => {
        throw explain(error)
      })
      if (next.done) return
      yield {
        header: next.value.header,
        entry: Readable.from(readEntry(next.value as AsyncIterable<Buffer>), { objectMode: false }),
      }
    }
  } finally {
    extract.destroy()
    content.destroy()
    await feeding
  }
}

/** Resolves once a stream takes more, or never will. */
async function writable(extract: Extract): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  extract.once('drain', resolve).once('close', resolve)
  await promise
  extract.off('drain', resolve).off('close', resolve)
}
