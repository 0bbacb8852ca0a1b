import type { Answer } from '../kit/http/answers.ts'

const answerBytesMax = 4_096
// 501: clients of MLflow ask for uploads in parts, and then send a file whole. 503: a store may be overloaded. Nothing was
// stored, and the caller may retry.
const expectedErrors = new Set([400, 401, 403, 404, 405, 413, 415, 501, 503])

/** What is wrong with an answer to a malformed request; undefined when nothing is. */
export function findError({ status, head, body }: Answer, isHead: boolean): string | undefined {
  // / redirects people to the reference page.
  if (status === 200 || status === 204 || status === 302) return undefined
  if (!expectedErrors.has(status)) return `status ${status}`
  if (status === 503 && !/\r\nretry-after: \d+\r\n/i.test(head)) return 'a 503 without Retry-After'
  if (isHead) return undefined
  if (!/\r\ncontent-type: application\/json\r\n/i.test(head)) return 'another content type than application/json'
  if (body.length > answerBytesMax) return `an error of ${body.length} bytes`
  return findEnvelopeError(status, body)
}

function findEnvelopeError(status: number, body: string): string | undefined {
  let envelope: Record<string, unknown> | null
  try {
    envelope = JSON.parse(body)
  } catch {
    return 'a body that is not JSON'
  }
  // Clients of MLflow are told the same in two fields of their own.
  const { msg, code, data, sdk_error_code, error_code = 'NONE', message = msg, ...more } = envelope ?? {}
  const isRight = typeof msg === 'string' && msg !== '' && code === status && data === null
  if (!isRight || !Number.isInteger(sdk_error_code) || Object.keys(more).length > 0) return 'not our error envelope'
  if (!/^[A-Z_]+$/.test(String(error_code)) || message !== msg) return 'not the error of MLflow'
  if (/\n\s+at |node_modules|\.ts:\d|DB::Exception|SQLSTATE/.test(msg)) return 'a message with internal details'
  return undefined
}
