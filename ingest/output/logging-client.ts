import { hash } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { isLoggingClient } from '../../http/logging-clients.ts'
import type { RequestId } from '../identity.ts'
import type { OutputBody } from './output-line.ts'

/** Output as clients that log live send it: with the time since the machine started, and without a name for the request. */

/** Three years since a start; as a time it would be in 1973. */
const uptimeMsMax = 1e11

/**
 * Leaves out local times that tell how long the machine is up: lines of a run that goes on elsewhere would be read in the
 * wrong order. Such lines are read in the order in which they came.
 */
export function withoutUptimes(body: OutputBody, headers: IncomingHttpHeaders): OutputBody {
  if (!isLoggingClient(headers)) return body
  const outputLines = body.outputLines.map((line) =>
    Number(line.localTimestamp) < uptimeMsMax ? { ...line, localTimestamp: undefined } : line,
  )
  return { ...body, outputLines }
}

/**
 * The same identity for the same lines at the same offsets. A run counts its lines, so two batches of it differ; an archive
 * that is uploaded again, or a request that is repeated, is stored once. Calls of its reader's half (`API`) begin at offset 0
 * each time, and are all kept.
 */
export function identifyOutput(body: OutputBody, headers: IncomingHttpHeaders): RequestId | undefined {
  const isOfRun = headers['x-comet-sdk-source'] !== 'API'
  if (!isLoggingClient(headers) || !isOfRun || headers['idempotency-key'] !== undefined) return undefined
  const lines = body.outputLines.map(({ output, stderr, offset }) => [output, stderr === true, String(offset)])
  const digest = hash('sha256', JSON.stringify(['output', body.context ?? body.runContext ?? '', lines]), 'buffer')
  // The top bit is that of requests with an `Idempotency-Key`.
  return { high: digest.readBigUInt64LE(0) | (2n ** 63n), low: digest.readBigUInt64LE(8) }
}
