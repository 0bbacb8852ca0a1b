import { HttpError } from '../../../http/errors.ts'
import type { EventReader } from '../../../store/clickhouse/monitoring/reader.ts'
import { listColumns } from '../../../store/clickhouse/monitoring/sql/columns.ts'
import { SqlRefused } from '../../../store/clickhouse/monitoring/sql/errors.ts'
import { createFilteredReader } from '../../../store/clickhouse/monitoring/sql/filtered-reader.ts'
import type { Sandbox } from '../../../store/clickhouse/monitoring/sql/sandbox.ts'

/** The predictions that meet a condition: all questions are asked of its reader. */
export type Segment = { predicateKey: string; reader: EventReader; condition?: string }

type Predicate = { key: string; query: string }

const allKey = 'all'

/** @throws HttpError `sqlOff` */
export function requireSandbox(sandbox: Sandbox | undefined): Sandbox {
  if (sandbox) return sandbox
  throw new HttpError(
    'sqlOff',
    'The service runs no SQL of callers, and so no conditions: an operator must set CLICKHOUSE_SQL_URL, see docs/deploying.md.',
  )
}

/**
 * The segments of a read; one of all predictions when it has no conditions.
 *
 * @param others further models that are read, such as a reference
 * @throws HttpError `sqlOff`, or `sqlRefused` with the place of the condition
 */
export async function openSegments(
  { eventReader, sandbox }: { eventReader: EventReader; sandbox: Sandbox | undefined },
  {
    modelId,
    predicates = [],
    others = [],
  }: { modelId: bigint; predicates?: Predicate[] | undefined; others?: bigint[] },
): Promise<Segment[]> {
  if (predicates.length === 0) return [{ predicateKey: allKey, reader: eventReader }]
  const runner = requireSandbox(sandbox)
  const conditions = await Promise.all(
    predicates.map(async ({ query }, at) => {
      try {
        return await runner.checkCondition(query)
      } catch (error) {
        if (!(error instanceof SqlRefused)) throw error
        throw new HttpError('sqlRefused', `predicates[${at}].query: ${error.message}`, { cause: error })
      }
    }),
  )
  return await Promise.all(
    predicates.map(async ({ key }, at): Promise<Segment> => {
      const condition = conditions[at] as string
      const columns = await listColumns(eventReader, modelId, [condition])
      const reader = createFilteredReader(eventReader, runner, { modelId, columns, condition, others })
      return { predicateKey: key, reader, condition }
    }),
  )
}
