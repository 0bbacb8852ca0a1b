import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { openClickHouse } from '../../../store/clickhouse/connection.ts'
import { storesWith } from '../../kit/service.ts'
import { openProxy } from '../../kit/stores/proxy.ts'

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

it('answers are written by one thread', async () => {
  const clickhouse = openClickHouse({ url: storesWith('postgres').clickhouseUrl })
  try {
    const setting = "SELECT getSetting('output_format_parallel_formatting') AS isByMany"
    expect(await clickhouse.rows(setting)).toEqual([{ isByMany: false }])
    expect(await text(await clickhouse.stream(`${setting} FORMAT CSV`))).toBe('false\n')
  } finally {
    await clickhouse.close()
  }
})

const slept = "SELECT now64(3, 'UTC'), sleep(0.5) FORMAT TSV"

it.each([false, true])('of a question with two queries both are answered in order; heavy: %s', async (isHeavy) => {
  const clickhouse = openClickHouse({
    url: storesWith('postgres').clickhouseUrl,
    admit: (run) => run({ priority: 2, isHeavy }),
  })
  try {
    const answers = await clickhouse.streams([`SELECT {n:UInt8} AS n, 'first' FORMAT CSV`, slept, slept], { n: 7 })
    const [first, ...times] = await Promise.all(answers.map((it) => text(it)))
    expect(first).toBe('7,"first"\n')
    const [one = 0, other = 0] = times.map((it) => Date.parse(`${it.split('\t')[0]}Z`))
    // A heavy one has one place only, so they follow one another.
    if (isHeavy) expect(other - one).toBeGreaterThanOrEqual(500)
    else expect(answers).toHaveLength(3)
  } finally {
    await clickhouse.close()
  }
})

it.each([false, true])(
  'a question fails when one of its queries does, and leaves no connection; heavy: %s',
  async (isHeavy) => {
    const clickhouse = openClickHouse({
      url: storesWith('postgres').clickhouseUrl,
      admit: (run) => run({ priority: 2, isHeavy }),
    })
    try {
      // More answers than there are connections: a query would wait for one for ever.
      for (let n = 0; n < 65; n++) {
        const answered = Array(2).fill('SELECT 1 FORMAT CSV')
        const failing = clickhouse.streams([...answered, "SELECT throwIf(1, 'on purpose') FORMAT CSV"])
        await expect(failing).rejects.toThrow('on purpose')
      }
      expect(await clickhouse.rows('SELECT 1 AS one')).toEqual([{ one: 1 }])
    } finally {
      await clickhouse.close()
    }
  },
)

it('a read whose idle connection ends as it is used is sent on another one', async () => {
  const proxy = await openProxy(storesWith('postgres').clickhouseUrl)
  const clickhouse = openClickHouse({ url: proxy.url })
  try {
    expect(await clickhouse.rows('SELECT 1 AS one')).toEqual([{ one: 1 }])
    proxy.endIdle()
    expect(await clickhouse.rows('SELECT 2 AS two')).toEqual([{ two: 2 }])
    proxy.endIdle()
    expect(await text(await clickhouse.stream('SELECT 3 FORMAT TSV'))).toBe('3\n')
    for (const expected of ['4\n', '5\n']) {
      const { signal } = new AbortController()
      const { stream } = await clickhouse.streamExport(`SELECT ${expected} FORMAT TSV`, { isWhole: false, signal })
      expect(await text(stream)).toBe(expected)
      proxy.endIdle()
    }
    proxy.cut()
    await expect(clickhouse.rows('SELECT 4')).rejects.toThrow()
  } finally {
    await clickhouse.close()
    await proxy.close()
  }
})

it('ClickHouse does not swap the sides of our joins', async () => {
  const clickhouse = openClickHouse({ url: storesWith('postgres').clickhouseUrl })
  const asked = "SELECT getSetting('query_plan_join_swap_table') AS swaps"
  try {
    expect(await clickhouse.rows(asked)).toEqual([{ swaps: false }])
    expect(await text(await clickhouse.stream(`${asked} FORMAT TSV`))).toBe('false\n')
  } finally {
    await clickhouse.close()
  }
})
