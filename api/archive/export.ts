import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Readable } from 'node:stream'
import { pack as createPack } from 'tar-stream'
import { HttpError } from '../../http/errors.ts'
import { type LoggedTable, loggedTables, streamLogged } from '../../store/clickhouse/archive/rows.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import { type ArchivedProject, type ArchiveRow, readProject } from '../../store/postgres/archive/read.ts'
import type { ArchiveTable } from '../../store/postgres/archive/tables.ts'
import type { Database } from '../../store/postgres/database.ts'
import { unknownProject } from '../access.ts'
import {
  archiveFormat,
  archiveVersion,
  headMember,
  linesBytes,
  sumsMember,
  tablesBytesMax,
  toLines,
  toLinesName,
  toObjectName,
} from './members.ts'

type Deps = { database: Database; clickhouse: ClickHouse; objects: ObjectStore }

type StoredBytes = { objectKey: string; size: number; sha256: string }

/** The rows of a project, compressed, and the objects that they name by number. */
type Tables = {
  project: ArchivedProject
  experimentIds: bigint[]
  members: { name: string; content: Buffer }[]
  objects: StoredBytes[]
}

/** Reads all rows into memory, as of one moment: a client that is slow must not keep a transaction open. */
export async function readTables(database: Database, projectId: string): Promise<Tables> {
  const members: Tables['members'] = []
  const objects: StoredBytes[] = []
  const numbers = new Map<string, number>()
  const counts = new Map<string, number>()
  let open: { table: string; lines: string[]; bytes: number } | undefined
  let bytesOfAll = 0

  async function close() {
    if (!open || open.lines.length === 0) return
    const at = (counts.get(open.table) ?? 0) + 1
    counts.set(open.table, at)
    const content = await toLines(open.lines.join(''))
    bytesOfAll += content.length
    if (bytesOfAll > tablesBytesMax) {
      throw new HttpError(
        'badRequest',
        `The experiments of the project have more than ${tablesBytesMax} bytes of parameters, notes, code and the like: move ` +
          'some experiments to another project.',
      )
    }
    members.push({ name: toLinesName('tables', open.table, at), content })
    open = undefined
  }

  function numberOf(row: ArchiveRow): number {
    const objectKey = row.object_key as string
    const known = numbers.get(objectKey)
    if (known !== undefined) return known
    objects.push({ objectKey, size: Number(row.size), sha256: row.sha256 as string })
    numbers.set(objectKey, objects.length)
    return objects.length
  }

  const found = await readProject(database, projectId, async (table: ArchiveTable, rows: ArchiveRow[]) => {
    for (const row of rows) {
      if (open && (open.table !== table.name || open.bytes >= linesBytes)) await close()
      open ??= { table: table.name, lines: [], bytes: 0 }
      if ('object_key' in row && row.object_key !== null) row.object_key = numberOf(row)
      const line = `${JSON.stringify(row)}\n`
      open.lines.push(line)
      open.bytes += line.length
    }
  })
  if (!found) throw unknownProject()
  await close()
  return { ...found, members, objects }
}

/** The archive as a stream. What fails in the middle ends it with an error, so that the client knows. */
export function streamArchive({ clickhouse, objects: store }: Deps, tables: Tables, signal: AbortSignal): Readable {
  const pack = createPack()
  const sums: string[] = []
  signal.addEventListener('abort', () => pack.destroy(new Error('the client left')), { once: true })

  async function add(name: string, size: number, content: AsyncIterable<Buffer> | Buffer[]) {
    signal.throwIfAborted()
    const hash = createHash('sha256')
    const ended = Promise.withResolvers<undefined>()
    ended.promise.catch(() => undefined)
    const entry = pack.entry({ name, size }, (error) => (error ? ended.reject(error) : ended.resolve(undefined)))
    entry.on('error', ended.reject)
    for await (const chunk of content) {
      hash.update(chunk)
      if (!entry.write(chunk)) await Promise.race([once(entry, 'drain', { signal }), ended.promise])
    }
    entry.end(undefined)
    await ended.promise
    const sha256 = hash.digest('hex')
    sums.push(`${sha256}  ${name}\n`)
    return sha256
  }

  const addWhole = (name: string, content: Buffer) => add(name, content.length, [content])

  async function addLogged(name: LoggedTable) {
    let open: Buffer[] = []
    let bytes = 0
    let at = 0
    /** Takes the whole lines that have arrived. */
    async function flush() {
      const arrived = Buffer.concat(open)
      const end = arrived.lastIndexOf('\n') + 1
      open = [arrived.subarray(end)]
      bytes = arrived.length - end
      if (end > 0) await addWhole(toLinesName('logged', name, ++at), await toLines(arrived.subarray(0, end)))
    }
    for await (const chunk of await streamLogged(clickhouse, name, tables.experimentIds, signal)) {
      open.push(chunk as Buffer)
      bytes += (chunk as Buffer).length
      if (bytes >= linesBytes) await flush()
    }
    await flush()
  }

  async function addAll() {
    const head = { format: archiveFormat, version: archiveVersion, id: randomUUID(), project: tables.project }
    await addWhole(headMember, Buffer.from(`${JSON.stringify(head, undefined, 2)}\n`))
    for (const { name, content } of tables.members) await addWhole(name, content)
    if (tables.experimentIds.length > 0) {
      for (const name of Object.keys(loggedTables) as LoggedTable[]) await addLogged(name)
    }
    for (const [index, { objectKey, size, sha256 }] of tables.objects.entries()) {
      const name = toObjectName(index + 1)
      const found = await add(name, size, await store.get(objectKey))
      if (found !== sha256) throw new Error(`the bytes of object ${objectKey} differ from its checksum`)
    }
    await addWhole(sumsMember, Buffer.from(sums.join('')))
    pack.finalize()
  }

  addAll().catch((error: Error) => pack.destroy(error))
  return Readable.from(pack, { objectMode: false })
}
