import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { StoreUrls } from '../../../cli/settings.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import type { Answer, TestClient } from '../http/client.ts'

export type ListedAsset = Record<string, unknown> & { assetId: string; fileName: string; type: string; tags: string[] }

/** A body and the headers it is sent with. */
export type Sent = { body: Uint8Array | FormData | ReadableStream; headers?: Record<string, string> }

/** A store of objects that no other test uses, as a folder. */
export async function openOwnObjects() {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-test-objects-'))
  return { url: pathToFileURL(folder).href, close: () => rm(folder, { recursive: true, force: true }) }
}

/** A form with a file and then fields; without a file where there are no bytes. */
export function aForm(bytes: Uint8Array<ArrayBuffer> | undefined, fields: Record<string, string> = {}): Sent {
  const body = new FormData()
  if (bytes) body.set('file', new Blob([bytes]), 'upload.bin')
  for (const [name, value] of Object.entries(fields)) body.set(name, value)
  return { body }
}

type Service = { url: string; apiKey: string; client: TestClient }

/** Uploads and reads of bytes, which the JSON client has no words for. */
export function createAssetClient({ url, apiKey, client }: Service) {
  const base = `${url}/api/rest/v2`

  async function send(path: string, { body, headers }: Sent): Promise<Answer> {
    const answer = await fetch(base + path, {
      method: 'POST',
      headers: { authorization: apiKey, ...headers },
      body: body as RequestInit['body'],
      ...(body instanceof ReadableStream && { duplex: 'half' }),
    })
    const text = await answer.text()
    return { status: answer.status, headers: answer.headers, text, body: text.startsWith('{') ? JSON.parse(text) : {} }
  }

  async function readPath(path: string, headers: Record<string, string> = {}) {
    const answer = await fetch(base + path, { headers: { authorization: apiKey, ...headers } })
    return { status: answer.status, headers: answer.headers, bytes: Buffer.from(await answer.arrayBuffer()) }
  }

  async function list(experimentKey: string, type?: string): Promise<ListedAsset[]> {
    const query = new URLSearchParams({ experimentKey, ...(type && { type }) })
    const answer = await client.get(`/experiment/asset/list?${query}`)
    if (answer.status !== 200) throw new Error(`asset/list answered ${answer.status}: ${answer.text}`)
    return answer.body.assets as ListedAsset[]
  }

  return {
    send,
    readPath,
    list,

    upload: (query: Record<string, string>, sent: Sent) =>
      send(`/write/experiment/upload-asset?${new URLSearchParams(query)}`, sent),

    read: (experimentKey: string, assetId: string, headers?: Record<string, string>) =>
      readPath(`/experiment/asset/get-asset?${new URLSearchParams({ experimentKey, assetId })}`, headers),

    async find(experimentKey: string, assetId: string): Promise<ListedAsset> {
      const found = (await list(experimentKey)).find((it) => it.assetId === assetId)
      if (!found) throw new Error(`there is no asset ${assetId}`)
      return found
    },
  }
}

/** Looks into the stores themselves: at the files of the one, and at what the other knows of them. */
export function lookInto({ postgresUrl, objectsUrl = '' }: StoreUrls) {
  const folder = fileURLToPath(objectsUrl)

  async function query<T>(sql: string, values: unknown[] = []): Promise<T[]> {
    const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError: () => undefined })
    try {
      return await database.rows<T>(sql, values)
    } finally {
      await database.close()
    }
  }

  /** By their paths in the folder; half-written ones included. */
  async function findFiles(): Promise<string[]> {
    const entries = await readdir(folder, { recursive: true, withFileTypes: true })
    return entries.filter((it) => it.isFile()).map((it) => path.relative(folder, path.join(it.parentPath, it.name)))
  }

  return {
    query,
    findFiles,

    /** Files that nothing refers to. */
    async findLeftovers(): Promise<string[]> {
      const files = await findFiles()
      const tables = ['assets', 'artifact_files', 'panels', 'registry_files']
      const kept = await query<{ key: string }>(
        tables.map((it) => `SELECT object_key AS key FROM ${it} WHERE object_key = ANY($1)`).join(' UNION '),
        [files],
      )
      const keys = new Set(kept.map((it) => it.key))
      return files.filter((it) => !keys.has(it))
    },

    async countLoose(): Promise<number> {
      return (await query('SELECT 1 FROM loose_objects')).length
    },
  }
}
