import { PassThrough } from 'node:stream'
import { toErrorEnvelope, toHttpError } from '../../../http/errors.ts'
import { describeItemError } from '../batch.ts'
import type { FieldError } from '../event.ts'

type Counts = {
  lines: number
  accepted: number
  duplicates: number
  rejected: number
  labels: { accepted: number; duplicates: number }
}

export type Progress = ReturnType<typeof createProgress>

const errorsShownMax = 1_000
const everyMs = 1_000
const keepAliveMs = 5_000

/**
 * The answer to an upload: lines of JSON, written while the file is read. A caller that does not read them gets fewer.
 *
 * @param onBug called with errors that are no HTTP error, to be logged
 */
export function createProgress(onBug: (error: unknown) => void) {
  const stream = new PassThrough()
  // The caller may have gone.
  stream.on('error', () => undefined)
  const counts: Counts = { lines: 0, accepted: 0, duplicates: 0, rejected: 0, labels: { accepted: 0, duplicates: 0 } }
  const errors: { line: number; field: string; msg: string }[] = []
  let reportedAt = performance.now()
  // Or else caller and proxies would take a connection for dead while the file waits for a store.
  const keepAlive = setInterval(report, keepAliveMs)

  function write(line: object) {
    if (!stream.writableEnded && !stream.destroyed) stream.write(`${JSON.stringify(line)}\n`)
  }

  function report() {
    if (performance.now() - reportedAt < everyMs || stream.writableNeedDrain) return
    reportedAt = performance.now()
    write({ lines: counts.lines, accepted: counts.accepted, duplicates: counts.duplicates, rejected: counts.rejected })
  }

  function finish(envelope: object) {
    clearInterval(keepAlive)
    write({ ...envelope, done: true, ...counts, faults: errors })
    stream.end()
  }

  return {
    stream,
    counts,

    /** Writes the counts, at most once a second. */
    report,

    start(ignoredColumns: string[]) {
      write({ lines: 0, accepted: 0, duplicates: 0, rejected: 0, ignoredColumns: ignoredColumns.slice(0, 100) })
    },

    reject(line: number, found: FieldError[]) {
      counts.rejected++
      for (const { field, msg } of found) {
        if (errors.length >= errorsShownMax) return
        errors.push({ line, field, msg })
        write({ line, msg: describeItemError({ field, msg }) })
      }
    },

    end: () => finish({ msg: 'Saved', code: 200, data: null, sdk_error_code: 0 }),

    fail(error: unknown) {
      const httpError = toHttpError(error)
      const isGone = error instanceof Error && error.name === 'AbortError'
      if (httpError.kind === 'bug' && !isGone) onBug(error)
      finish(toErrorEnvelope(httpError))
    },
  }
}
