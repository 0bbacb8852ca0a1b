import { openAsBlob } from 'node:fs'
import { Refused, type Transport } from './transport.ts'

/**
 * What is sent to the service, as plain data: the process that has logged it sends it, or at its end another one. It stays
 * the same however often it is sent; the keys are those by which the service knows it again.
 */
export type Request =
  | { kind: 'create'; fields: Record<string, string>; workspaceName: string | undefined }
  | { kind: 'json'; path: string; body: string; key: string }
  | {
      kind: 'events'
      model: Record<string, string | undefined>
      workspaceName: string | undefined
      /** Fields of each event, as JSON without its braces. */
      events: string[]
    }
  | {
      kind: 'upload'
      query: Record<string, string>
      name: string
      /** The path of a file, or its bytes. */
      file: string | Uint8Array
      fields: Record<string, string>
      key: string
    }

const experimentExists = 90999

/**
 * Sends it, once.
 *
 * @param mayHaveCome an earlier attempt may have been stored, though nobody said so
 * @returns the answer
 * @throws Unavailable, Refused
 */
export async function perform(transport: Transport, request: Request, mayHaveCome: boolean): Promise<unknown> {
  switch (request.kind) {
    case 'json':
      return await transport.post(request.path, request.body, request.key)
    case 'create':
      return await create(transport, request, mayHaveCome)
    case 'events': {
      const model = { workspaceName: request.workspaceName ?? (await findWorkspace(transport)), ...request.model }
      const prefix = JSON.stringify(model).slice(0, -1)
      const items = request.events.map((it) => `${prefix},${it}}`)
      return await transport.post('/mpm/v2/events/batch', `{"data":[${items.join(',')}]}`)
    }
    case 'upload': {
      const { query, name, file, fields, key } = request
      const content = typeof file === 'string' ? await openAsBlob(file) : new Blob([new Uint8Array(file)])
      return await transport.upload('/api/rest/v2/write/experiment/upload-asset', query, { name, content }, key, fields)
    }
  }
}

async function create(transport: Transport, request: Request & { kind: 'create' }, mayHaveCome: boolean) {
  const workspaceName = request.workspaceName ?? (await findWorkspace(transport))
  const body = JSON.stringify({ ...request.fields, workspaceName })
  try {
    return await transport.post('/api/rest/v2/write/experiment/create', body)
  } catch (error) {
    // The attempt before has made it, only its answer was lost.
    if (mayHaveCome && error instanceof Refused && error.code === experimentExists) return undefined
    throw error
  }
}

async function findWorkspace(transport: Transport): Promise<string> {
  const { defaultWorkspaceName } = await transport.get('/api/rest/v2/account-details')
  if (defaultWorkspaceName) return defaultWorkspaceName
  throw new Refused('the account has no default workspace: pass workspaceName, or set SVC_WORKSPACE', 400, 0)
}
