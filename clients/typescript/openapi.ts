import { createHash } from 'node:crypto'

/** The calls that the client makes; their types are generated. */
const calls = [
  '/api/rest/v2/account-details',
  '/api/rest/v2/write/experiment/create',
  '/api/rest/v2/write/experiment/log-other',
  '/api/rest/v2/write/experiment/metrics/batch',
  '/api/rest/v2/write/experiment/set-start-end-time',
  '/api/rest/v2/write/experiment/set-status',
  '/api/rest/v2/write/experiment/tags',
  '/api/rest/v2/write/experiment/update-status',
  '/api/rest/v2/write/experiment/upload-asset',
  '/clientlib/batch/logger/experiment/parameter',
  '/mpm/v2/events/batch',
]

export type OpenApi = { openapi: string; paths: Record<string, unknown> }

/** The part of the service's document that the client goes by, and what it can be known again by. */
export function pickCalls(document: OpenApi) {
  const missing = calls.filter((it) => !(it in document.paths))
  if (missing.length > 0) throw new Error(`The service has no such calls any more: ${missing.join(', ')}`)
  const picked = {
    openapi: document.openapi,
    info: { title: 'svc', version: '2' },
    paths: Object.fromEntries(calls.map((it) => [it, document.paths[it]])),
  }
  return { picked, fingerprint: createHash('sha256').update(JSON.stringify(picked.paths)).digest('hex') }
}
