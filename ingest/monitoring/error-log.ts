import { createWriteBehindBuffer } from '../../runtime/write-behind-buffer.ts'
import type { IngestionError } from '../../store/postgres/monitoring/ingestion-errors.ts'

type Settings = {
  write(errors: IngestionError[]): Promise<void>
  onError(error: unknown): void
  /** Different errors of one workspace that a process logs in a day; the rest are counted as one. */
  kindsMax?: number
}

/** Errors can be read within 2 s. */
const writeEveryMs = 1_000
const kindsMaxDefault = 1_000
const dayMs = 24 * 3_600_000
const sampleCharactersMax = 200
const others = 'other faults: there were too many kinds to list'

/** Why an event was not stored. */
export type LoggedError = {
  workspaceId: string
  modelName: string
  call: string
  fault: string
  sample: string
}

/** Counts the errors of rejected events by kind and writes them to Postgres in the background. */
export function createErrorLog({ write, onError, kindsMax = kindsMaxDefault }: Settings) {
  let day = 0
  let kinds = new Map<string, Set<string>>()
  const errors = createWriteBehindBuffer<IngestionError>({
    idOf: toId,
    merge(known, more) {
      known.count += more.count
      known.sample = more.sample
      known.lastAtMs = Math.max(known.lastAtMs, more.lastAtMs)
    },
    write,
    everyMs: writeEveryMs,
    onError,
  })

  /** True for a kind seen today, and for a new one while there is room. */
  function isKept(error: IngestionError, nowMs: number): boolean {
    const today = Math.floor(nowMs / dayMs)
    if (today !== day) kinds = new Map()
    day = today
    const known = kinds.get(error.workspaceId) ?? new Set()
    kinds.set(error.workspaceId, known)
    const id = toId(error)
    if (known.has(id)) return true
    if (known.size >= kindsMax) return false
    known.add(id)
    return true
  }

  return {
    add({ sample, ...logged }: LoggedError) {
      const nowMs = Date.now()
      const error = {
        ...logged,
        sample: sample.slice(0, sampleCharactersMax),
        count: 1,
        firstAtMs: nowMs,
        lastAtMs: nowMs,
      }
      errors.add(isKept(error, nowMs) ? error : { ...error, modelName: '', fault: others })
    },
    close: () => errors.close(),
  }
}

const toId = ({ workspaceId, modelName, call, fault }: IngestionError) =>
  [workspaceId, modelName, call, fault].join('\n')

export type ErrorLog = ReturnType<typeof createErrorLog>
