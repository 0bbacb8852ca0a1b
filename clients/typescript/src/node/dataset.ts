import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createBackoff } from '../backoff.ts'
import type { ErrorLog, Log } from '../error-log.ts'
import { Refused, type Transport, Unavailable } from '../transport.ts'
import { type Part, readParts, toFileLine } from './parts.ts'

export type DatasetOptions = {
  datasetType: 'EVENTS' | 'LATE_LABELS' | 'TRAINING_EVENTS'
  /** The lines go to the model of this name, which is made if there is none; training events need one. */
  datasetName?: string
  /** Further strings that mean a missing value. */
  naValues?: string[]
  /** False: only those that are given mean one. True when it is left out. */
  keepDefaultNaValues?: boolean
  /** How long an outage is waited for. 600,000. */
  patienceMs?: number
}

type Model = { modelName: string | undefined; modelVersion: string | undefined }
type Deps = { transport: Transport; errors: ErrorLog; log: Log; signal: AbortSignal; model: Model }
type Told = Record<string, unknown> & { faults?: { line: number; field: string; msg: string }[] }

const calls = {
  EVENTS: '/mpm/v2/data/events/csv',
  LATE_LABELS: '/mpm/v2/data/labels/csv',
  TRAINING_EVENTS: '/mpm/v2/dataset/events/csv',
}

/**
 * Sends a CSV file in parts. One whose answer was lost is sent again, and ends as if it were sent once: a line that brings no
 * prediction id gets one made of the file's name, the number of the line and what stands in it.
 *
 * @throws Error, Refused; Unavailable when an outage lasts longer than there is patience
 */
export async function uploadDataset(deps: Deps, file: string, given: DatasetOptions) {
  const { transport } = deps
  const options = { ...deps.model, ...given }
  const call = calls[options.datasetType]
  if (!call) throw new Error(`datasetType: must be one of ${Object.keys(calls).join(', ')}`)
  if (options.datasetType === 'TRAINING_EVENTS' && !options.datasetName) {
    throw new Error('datasetName: is missing: TRAINING_EVENTS need one')
  }
  if (!options.datasetName && !options.modelName) {
    throw new Error('datasetName: is missing, and so is the modelName of the logger: pass one of them')
  }
  const name = path.basename(file)
  const counts = { lines: 0, accepted: 0, duplicates: 0, rejected: 0 }
  for await (const part of readParts(createReadStream(file))) {
    const key = createHash('sha256').update(`${name}\0${part.firstLine}`).digest('hex')
    const content = new Blob([new Uint8Array(part.content)], { type: 'text/csv' })
    const told = await patiently(deps, `${name}: line ${part.firstLine}`, options.patienceMs ?? 600_000, async () => {
      const query = toQuery(options, await transport.findWorkspace())
      return readLast(await transport.upload(call, query, { name, content }, key))
    })
    for (const kind of ['lines', 'accepted', 'duplicates', 'rejected'] as const) counts[kind] += Number(told[kind] ?? 0)
    reportErrors(deps.errors, name, part, told)
  }
  const { lines, accepted, duplicates, rejected } = counts
  deps.log.info(
    `svc: ${name}: all ${lines} lines are stored: ${accepted} new, ${duplicates} there already, ${rejected} rejected`,
  )
}

async function patiently(
  { log, signal }: Deps,
  where: string,
  patienceMs: number,
  send: () => Promise<Told>,
): Promise<Told> {
  const backoff = createBackoff()
  let deadline: number | undefined
  for (;;) {
    try {
      return await send()
    } catch (error) {
      if (!(error instanceof Unavailable) || signal.aborted) throw error
      const now = performance.now()
      if (deadline === undefined) log.warn(`svc: ${where}: ${error.message}. Trying again`)
      deadline ??= now + patienceMs
      if (now >= deadline) {
        throw new Unavailable(
          `${where}: given up after ${patienceMs} ms: ${error.message}. Upload the file again: what is stored of it stays`,
        )
      }
      await sleep(Math.min(backoff.nextMs(error.retryAfterMs), deadline - now), undefined, { signal })
    }
  }
}

function toQuery(options: DatasetOptions & Model, workspaceName: string): Record<string, string> {
  const { modelName, modelVersion, datasetName, naValues, keepDefaultNaValues = true } = options
  return {
    workspaceName,
    keepDefaultNAValues: String(keepDefaultNaValues),
    ...(modelName !== undefined && { modelName }),
    ...(modelVersion !== undefined && { modelVersion }),
    ...(datasetName !== undefined && { datasetName }),
    ...(naValues !== undefined && { NAValues: naValues.join(',') }),
  }
}

/** The last of the lines that tell what happens: the one with the counts. */
function readLast(text: string): Told {
  const last = text.trimEnd().split('\n').at(-1) ?? ''
  let told: Told
  try {
    told = JSON.parse(last)
  } catch {
    throw new Unavailable('the answer ended before all was told')
  }
  if (!told.done) throw new Unavailable('the answer ended before all was told')
  const code = Number(told.code)
  if (code === 200) return told
  if (code >= 500 || code === 429) throw new Unavailable(String(told.msg))
  throw new Refused(String(told.msg), code, Number(told.sdk_error_code ?? 0))
}

function reportErrors(errors: ErrorLog, name: string, part: Part, told: Told) {
  const lines = new Set<number>()
  for (const { line, field, msg } of told.faults ?? []) {
    lines.add(line)
    const fault = field === '' ? msg : `${field}: ${msg}`
    errors.add(`${name}: the service rejected a line: ${fault}`, [`line ${toFileLine(part, line)}`])
  }
  const more = Number(told.rejected ?? 0) - lines.size
  if (more > 0) errors.add(`${name}: the service rejected further lines`, [], more)
}
