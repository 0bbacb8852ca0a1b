import { expect, it } from 'vitest'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { storesWith } from '../../kit/service.ts'

it('a client that leaves as its query begins ends no other query', async () => {
  const leaving = new AbortController()
  const signals = [undefined, leaving.signal]
  const clickhouse = openClickHouse({
    url: storesWith('postgres').clickhouseUrl,
    admit: (run) => {
      const signal = signals.shift()
      return run({ priority: 0, isHeavy: false, ...(signal && { signal }) })
    },
  })
  try {
    // The connection is free, given to the query of the client that leaves, and free again.
    await clickhouse.rows('SELECT 1')
    const left = expect(clickhouse.rows('SELECT 1')).rejects.toThrow('aborted')
    leaving.abort()
    await left
    // One that was counted as idle since its first use would be closed now.
    expect(await clickhouse.rows('SELECT sleep(2.5) AS slept')).toEqual([{ slept: 0 }])
  } finally {
    await clickhouse.close()
  }
})
