import { createWriteBehindBuffer } from '../../runtime/write-behind-buffer.ts'
import type { IngestionError } from '../../store/postgres/monitoring/ingestion-errors.ts'

type Settings = {
  write(errors: IngestionError[]): Promise<void>
  onError(error: unknown): void
  /** What a process tells apart of one workspace in a day; the rest is counted together. */
  kindsMax?: number
}

/** So that faults can be read within 2 s. */
const writeEveryMs = 1_000
const kindsMaxDefault = 1_000
const dayMs = 24 * 3_600_000
const sampleCharactersMax = 200
const others = 'further faults, of too many kinds to be told apart'

/** What was wrong with an event that was not stored. */
export type TellableFault = {
  workspaceId: string
  modelName: string
  call: string
  fault: string
  sample: string
}

/** Counts what was wrong with events, so that whoever looks at a model later can read it. */
export function createFaultLog({ write, onError, kindsMax = kindsMaxDefault }: Settings) {
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

  /** True for what was seen today, or may be kept as one kind more. */
  function isToldApart(error: IngestionError, nowMs: number): boolean {
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
    add({ sample, ...told }: TellableFault) {
      const nowMs = Date.now()
      const error = {
        ...told,
        sample: sample.slice(0, sampleCharactersMax),
        count: 1,
        firstAtMs: nowMs,
        lastAtMs: nowMs,
      }
      errors.add(isToldApart(error, nowMs) ? error : { ...error, modelName: '', fault: others })
    },
    close: () => errors.close(),
  }
}

const toId = ({ workspaceId, modelName, call, fault }: IngestionError) =>
  [workspaceId, modelName, call, fault].join('\n')

export type FaultLog = ReturnType<typeof createFaultLog>
