import { HttpError, toErrorEnvelope } from './errors.ts'

/**
 * Clients of MLflow decide what to do next by `error_code`, so below the paths of MLflow an error has that form too. They send
 * again after 429 and 503, and wait as `Retry-After` says.
 */

const paths = /^\/api\/[23]\.0\/mlflow(-artifacts)?\//

/** The pages of MLflow call the same routes below another prefix; what is written for them does so too. */
export const toMlflowPath = (url: string) => (url.startsWith('/ajax-api/') ? url.replace('/ajax-api/', '/api/') : url)

const byStatus: Record<number, string> = {
  400: 'INVALID_PARAMETER_VALUE',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'ENDPOINT_NOT_FOUND',
  405: 'ENDPOINT_NOT_FOUND',
  429: 'RESOURCE_EXHAUSTED',
  500: 'INTERNAL_ERROR',
  501: 'NOT_IMPLEMENTED',
  503: 'TEMPORARILY_UNAVAILABLE',
}

/** The status and body of an error on a path. */
export function toErrorAnswer(error: HttpError, path: string): { status: number; body: object } {
  if (!paths.test(path)) return { status: error.status, body: toErrorEnvelope(error) }
  const told = error.kind === 'keyMissing' ? withoutKey() : error
  const { status, code } = toMlflowError(told)
  return { status, body: { error_code: code, message: told.message, ...toErrorEnvelope(told), code: status } }
}

function toMlflowError({ kind, status }: HttpError): { status: number; code: string } {
  if (kind.endsWith('Exists')) return { status: 400, code: 'RESOURCE_ALREADY_EXISTS' }
  if (kind.endsWith('Unknown') && status !== 401 && kind !== 'routeUnknown') {
    return { status: 404, code: 'RESOURCE_DOES_NOT_EXIST' }
  }
  return { status, code: byStatus[status] ?? 'BAD_REQUEST' }
}

function withoutKey(): HttpError {
  return new HttpError(
    'keyMissing',
    'No API key was sent: set MLFLOW_TRACKING_TOKEN to it, or MLFLOW_TRACKING_PASSWORD beside any MLFLOW_TRACKING_USERNAME.',
  )
}
