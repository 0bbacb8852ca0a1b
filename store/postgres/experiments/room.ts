import { createLruCache } from '../../../runtime/lru-cache.ts'
import type { Queries } from '../database.ts'

/**
 * What the values of a run take, in bytes: names and texts of parameters, others, tags, and of its datasets and models as MLflow has
 * them. Reads of a run have all of them, so a run has a limited number.
 */
const valuesBytesMax = 16 * 1024 ** 2
/** Of each value, whatever its length: so many of them are as much of an answer. */
const bytesOfEach = 100
/** After so much a process counts again: others write too, and what is replaced or deleted makes room. */
const uncountedMax = 1024 ** 2
const experimentsKnownMax = 10_000

/** The values of a run would take more than they may. None of those given was stored. */
export class ValuesFull extends Error {
  constructor(bytes: number, left: number, bytesMax: number) {
    super(
      `The experiment may have ${bytesMax} bytes of parameters, others, tags, datasets and models together. ${Math.max(left, 0)} are left, ` +
        `and this needs ${bytes}: upload long texts as assets. Nothing of it was stored.`,
    )
  }
}

const bytesOfValue = `octet_length(name) + octet_length(value) + ${bytesOfEach}`
const bytesOfTag = `octet_length(tag) + ${bytesOfEach}`
const bytesOfDataset = `octet_length(concat(name, digest)) + octet_length(source) + octet_length(tags)
  + coalesce(octet_length(schema), 0) + coalesce(octet_length(profile), 0) + ${bytesOfEach}`
const bytesOfModel = `octet_length(params) + octet_length(tags) + ${bytesOfEach}`

/** To know the size of a long text does not read it: it lies apart from its row. */
const sizesOf = (condition: string) =>
  `SELECT experiment_id, ${bytesOfValue} AS bytes FROM experiment_values WHERE ${condition}
   UNION ALL SELECT experiment_id, ${bytesOfTag} FROM experiment_tags WHERE ${condition}
   UNION ALL SELECT experiment_id, ${bytesOfDataset} FROM run_datasets WHERE ${condition}
   UNION ALL SELECT experiment_id, ${bytesOfModel} FROM logged_models WHERE ${condition} AND deleted_at IS NULL`

/** The bytes of the values of some runs, by run. */
export async function countValueBytes(queries: Queries, experimentIds: bigint[]): Promise<Map<bigint, number>> {
  const rows = await queries.rows<{ id: bigint; bytes: number }>(
    `SELECT experiment_id AS id, sum(bytes)::float8 AS bytes FROM (${sizesOf('experiment_id = ANY($1)')}) AS sizes GROUP BY experiment_id`,
    [experimentIds],
  )
  return new Map(rows.map((it) => [it.id, it.bytes]))
}

/** What is to be stored. A parameter or other replaces that of its name. */
type Given = { kind?: 'parameter' | 'other'; name: string; texts: string[] }

/** How much more the runs may have, as far as this process knows: writes at the same time may take some more. */
export function createRoom(queries: Queries, bytesMax = valuesBytesMax) {
  const held = createLruCache<{ bytes: number; uncounted: number }>(experimentsKnownMax)

  /** The bytes of a run, and of those of its values that will be replaced. */
  async function count(experimentId: bigint, given: Given[]) {
    const replacing = given.filter((it) => it.kind !== undefined)
    const row = await queries.row<{ all: number; replaced: number }>(
      `SELECT (SELECT coalesce(sum(bytes), 0) FROM (${sizesOf('experiment_id = $1')}) AS sizes)::float8 AS "all",
         (SELECT coalesce(sum(${bytesOfValue}), 0) FROM experiment_values
          WHERE experiment_id = $1 AND (kind, name) IN (SELECT * FROM unnest($2::text[], $3::text[])))::float8 AS replaced`,
      [experimentId, replacing.map((it) => it.kind), replacing.map((it) => it.name)],
      'experiment-value-bytes',
    )
    return row ?? { all: 0, replaced: 0 }
  }

  return {
    /** Takes room for a write, before it begins. @throws ValuesFull */
    async take(experimentId: bigint, given: Given[]): Promise<void> {
      if (given.length === 0) return
      let bytes = 0
      for (const { name, texts } of given) {
        bytes += bytesOfEach + Buffer.byteLength(name)
        for (const text of texts) bytes += Buffer.byteLength(text)
      }
      const known = held.get(String(experimentId))
      if (known && known.bytes + bytes <= bytesMax && known.uncounted + bytes <= uncountedMax) {
        known.bytes += bytes
        known.uncounted += bytes
        return
      }
      const { all, replaced } = await count(experimentId, given)
      const kept = all - replaced
      // A run of an earlier version may have more: a write that adds nothing is none too many.
      if (kept + bytes > bytesMax && bytes > replaced) throw new ValuesFull(bytes, bytesMax - kept, bytesMax)
      held.set(String(experimentId), { bytes: kept + bytes, uncounted: 0 })
    },
  }
}

export type Room = ReturnType<typeof createRoom>
