import type { Platform } from './platform.ts'
import type { Request } from './request.ts'
import { Refused, type Transport } from './transport.ts'

const experimentExists = 90999

/**
 * Sends it, once.
 *
 * @param mayHaveCome another attempt may have been stored, though nobody said so
 * @returns the answer
 * @throws Unavailable, Refused
 */
export async function perform(
  { transport, platform }: { transport: Transport; platform: Pick<Platform, 'openFile'> },
  request: Request,
  mayHaveCome: () => boolean,
): Promise<unknown> {
  switch (request.kind) {
    case 'json':
      return await transport.post(request.path, request.body, request.key)
    case 'create':
      return await create(transport, request, mayHaveCome)
    case 'events': {
      const body = toEventsBody(request, request.workspaceName ?? (await transport.findWorkspace()))
      return await transport.post('/mpm/v2/events/batch', body)
    }
    case 'upload': {
      const { query, name, file, fields, key } = request
      const content = typeof file === 'string' ? await platform.openFile(file) : toBlob(file)
      return await transport.upload('/api/rest/v2/write/experiment/upload-asset', query, { name, content }, key, fields)
    }
  }
}

export function toEventsBody({ model, events }: Request & { kind: 'events' }, workspaceName: string | undefined) {
  const prefix = JSON.stringify({ workspaceName, ...model }).slice(0, -1)
  return `{"data":[${events.map((it) => `${prefix},${it}}`).join(',')}]}`
}

async function create(transport: Transport, request: Request & { kind: 'create' }, mayHaveCome: () => boolean) {
  const workspaceName = request.workspaceName ?? (await transport.findWorkspace())
  const body = JSON.stringify({ ...request.fields, workspaceName })
  try {
    return await transport.post('/api/rest/v2/write/experiment/create', body)
  } catch (error) {
    // Another attempt has made it, only its answer was lost.
    if (mayHaveCome() && error instanceof Refused && error.code === experimentExists) return undefined
    throw error
  }
}

const toBlob = (file: Uint8Array | Blob) => (file instanceof Blob ? file : new Blob([new Uint8Array(file)]))
