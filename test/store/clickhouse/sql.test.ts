import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { toClickHouse } from '../../../cli/settings.ts'
import { countEvents } from '../../../store/clickhouse/monitoring/event-counts.ts'
import { allowedFunctions } from '../../../store/clickhouse/monitoring/sql/allowed.ts'
import { SqlRefused, SqlTooLarge } from '../../../store/clickhouse/monitoring/sql/errors.ts'
import { createFilteredReader } from '../../../store/clickhouse/monitoring/sql/filtered-reader.ts'
import { runQuery } from '../../../store/clickhouse/monitoring/sql/model-query.ts'
import { openSandbox, type Sandbox } from '../../../store/clickhouse/monitoring/sql/sandbox.ts'
import { createUser, storesWith, uniqueName } from '../../kit/service.ts'
import { openStoredEvents, type StoredEvents } from '../../monitoring/stored-events.ts'

/** SQL of callers against the real engine. Each of the two fences is tried without the other. */

const limits = { timeMsMax: 30_000, memoryBytesMax: 1e9, rowsReadMax: 1e8, rowsMax: 100 }
const ofAge = [{ part: 'feature', name: 'age', type: 'numeric', column: 'feature_age' }] as const

// A server that was given by its address may have no such user.
describe.skipIf(inject('stores').clickhouseSqlUrl === undefined)('SQL of callers', () => {
  let stored: StoredEvents
  let sandbox: Sandbox
  const models: bigint[] = []
  const open = (more: Partial<typeof limits> = {}) =>
    openSandbox({
      url: inject('stores').clickhouseSqlUrl as string,
      clickhouse: stored.clickhouse,
      limits: { ...limits, ...more },
    })
  beforeAll(async () => {
    const stores = storesWith('postgres')
    stored = openStoredEvents(stores)
    sandbox = open()
    expect(toClickHouse(stores).url).toBe(stores.clickhouseUrl)
    const { workspaceName } = await createUser(stores)
    for (const name of ['mine', 'another']) {
      const model = await stored.model(workspaceName, uniqueName(name))
      const events = Array.from({ length: 10 }, (_, at) => ({
        predictionId: `${name} ${at}`,
        timestamp: 1_700_000_000_000 + at,
        features: { age: at },
        labels: { value: at % 2 },
      }))
      // Delivered twice, as a queue may do.
      await (await stored.write(model, 'EVENTS', events)).again()
      models.push(model)
    }
  })
  afterAll(() => Promise.all([sandbox?.close(), stored?.close()]))

  const mine = () => models[0] as bigint
  const another = () => models[1] as bigint
  const run = async (sql: string) => {
    const scope = { modelId: mine(), kind: 'EVENTS' } as const
    return await runQuery(sandbox, await sandbox.checkQuery(sql), { scope, columns: [...ofAge] }, limits.rowsMax)
  }

  it('a model is a table with a row for each event, however often it was delivered', async () => {
    const read = await run('select count(*), sum(feature_age), min("timestamp"), max(predictionId) from Model')
    expect(read.rows).toEqual([['10', 45, '1700000000000', 'mine 9']])
    await sandbox.check()
  })

  it.each([
    ["SELECT file('/etc/passwd')", 'the function file is not allowed'],
    ["SELECT * FROM file('/etc/passwd', 'LineAsString')", 'the function file is not allowed'],
    ["SELECT * FROM url('http://127.0.0.1/', 'LineAsString')", 'the function url is not allowed'],
    ["SELECT * FROM s3('http://127.0.0.1/a/b', 'CSV')", 'the function s3 is not allowed'],
    ["SELECT * FROM remote('127.0.0.1', svc.events)", 'the function remote is not allowed'],
    ["SELECT * FROM cluster('svc', svc.events)", 'the function cluster is not allowed'],
    ["SELECT * FROM executable('id', 'CSV', 'a String')", 'the function executable is not allowed'],
    ["SELECT * FROM merge('svc', '.*')", 'the function merge is not allowed'],
    ["SELECT * FROM mysql('a:1', 'b', 'c', 'd', 'e')", 'the function mysql is not allowed'],
    ['SELECT * FROM numbers(3)', 'the function numbers is not allowed'],
    ['SELECT * FROM view(SELECT 1)', 'the function view is not allowed'],
    ["SELECT getSetting('log_comment') FROM MODEL", 'the function getSetting is not allowed'],
    ["SELECT dictGet('a', 'b', 1)", 'the function dictGet is not allowed'],
    ['SELECT sleep(3) FROM MODEL', 'the function sleep is not allowed'],
    ["WITH (x -> file(x)) AS f SELECT f('a')", 'the function file is not allowed'],
    ['SELECT count() FROM MODEL UNION ALL SELECT count() FROM svc.events', 'only MODEL can be read, not svc.events'],
    ['SELECT * FROM system.users', 'only MODEL can be read, not system.users'],
    ['SELECT * FROM information_schema.tables', 'only MODEL can be read'],
    ["SELECT (SELECT count() FROM MODEL SETTINGS log_comment = '1')", 'SETTINGS are not allowed'],
    ['SELECT count() FROM MODEL SETTINGS max_threads = 1', /SETTINGS|readonly/],
    ['SELECT 1 FORMAT JSON', 'must be one SELECT'],
    ["SELECT 1 INTO OUTFILE '/tmp/a'", /INTO OUTFILE/],
    ['SELECT 1; SELECT 2', 'Multi-statements are not allowed'],
    ['INSERT INTO svc.events (model_id) VALUES (1)', 'must be one SELECT'],
    ['ALTER TABLE svc.events DELETE WHERE 1', 'must be one SELECT'],
    ['DROP TABLE svc.events', 'must be one SELECT'],
    ['CREATE TEMPORARY TABLE a (b Int8)', 'must be one SELECT'],
    ['SYSTEM FLUSH LOGS', 'must be one SELECT'],
    ['SET readonly = 0', 'must be one SELECT'],
    ['GRANT ALL ON *.* TO svc_sql', 'must be one SELECT'],
    ['EXPLAIN SELECT 1', 'must be one SELECT'],
    ['SELECT {a:Int8}', 'Substitution'],
    ["SELECT COLUMNS('.*') FROM MODEL", 'is not allowed'],
    ['SELECT (1', 'Syntax error'],
    ['SELECT a FROM sql_events', 'must read FROM MODEL'],
    ['WITH RECURSIVE a AS (SELECT 1 FROM MODEL) SELECT * FROM a', 'WITH RECURSIVE is not allowed'],
    ['SELECT 1', 'must read FROM MODEL'],
  ])('our fence refuses %s', async (sql, message) => {
    const refused = await run(sql).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(SqlRefused)
    expect((refused as Error).message).toMatch(message)
  })

  it.each([
    'SELECT count() FROM svc.events',
    'SELECT count() FROM svc.event_values',
    'SELECT token FROM svc.sql_tokens',
    'SELECT name FROM system.users',
    'SELECT query FROM system.processes',
    'SHOW PROCESSLIST',
    "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM file('/etc/passwd', 'LineAsString')",
    "SELECT * FROM remote('127.0.0.1', svc.events)",
    "SELECT * FROM executable('id', 'CSV', 'a String')",
    "SELECT * FROM mysql('a:1', 'b', 'c', 'd', 'e')",
    'SELECT 1 IN svc.events',
    'INSERT INTO svc.events (model_id) VALUES (1)',
    'ALTER TABLE svc.events DELETE WHERE 1',
    'DROP TABLE svc.events',
    'DROP VIEW svc.sql_events',
    'CREATE TEMPORARY TABLE a (b Int8)',
    'SYSTEM FLUSH LOGS',
    'KILL QUERY WHERE 1',
    'GRANT ALL ON *.* TO svc_sql',
    "SELECT count() FROM svc.sql_events SETTINGS log_comment = ''",
    'SELECT count() FROM svc.sql_events SETTINGS readonly = 0',
    'SELECT 1; SELECT 2',
  ])('the engine refuses %s', async (sql) => {
    const refused = await sandbox.table(sql, [mine()]).catch((error: unknown) => error)
    expect(refused).toBeInstanceOf(SqlRefused)
  })

  it('the engine shows no rows of a model without its token, whatever a subquery sets', async () => {
    const ids = 'SELECT arraySort(groupUniqArray(toString(model_id))) FROM svc.sql_event_values'
    const read = async (sql: string, of: bigint[]) => (await sandbox.table(sql, of)).rows
    expect(await read(ids, [mine()])).toEqual([[[String(mine())]]])
    expect(await read(ids, [mine(), another()])).toEqual([[[mine(), another()].map(String).toSorted()]])
    expect(await read(ids, [])).toEqual([[[]]])
    for (const guess of [String(another()), '', '%', `${mine()},${another()}`]) {
      expect(await read(`SELECT (${ids} SETTINGS log_comment = '${guess}')`, [mine()])).toEqual([[[]]])
    }
  })

  it('no function that is allowed is the name of a table function', async () => {
    const functions = await stored.clickhouse.rows<{ name: string }>('SELECT name FROM system.table_functions')
    expect(functions.length).toBeGreaterThan(20)
    expect(functions.filter((it) => allowedFunctions.has(it.name.toLowerCase()))).toEqual([])
  })

  it('ClickHouse may swap the sides of the joins of callers, and not of ours', async () => {
    const asked = "SELECT getSetting('query_plan_join_swap_table') AS swaps"
    expect(await sandbox.rows(asked, [])).toEqual([{ swaps: false }])
    expect((await sandbox.table(asked, [])).rows).toEqual([['auto']])
  })

  it('void events are in no row, and their labels are not counted', async () => {
    const stores = storesWith('postgres')
    const { workspaceName } = await createUser(stores)
    const modelId = await stored.model(workspaceName, uniqueName('void'))
    const events = [1, 2, 3].map((age) => ({
      predictionId: `${age}`,
      timestamp: 1_700_000_000_000 + age,
      features: { age },
      labels: { value: age },
    }))
    const written = await stored.write(modelId, 'EVENTS', events)
    const columns = [...ofAge, { part: 'label', name: 'value', type: 'numeric', column: 'label_value' } as const]
    const scope = { modelId, kind: 'EVENTS' } as const
    const sums = async () => {
      const query = await sandbox.checkQuery('SELECT count(), sum(feature_age), sum(label_value) FROM MODEL')
      const condition = await sandbox.checkCondition('feature_age > 1')
      const reader = createFilteredReader(stored.eventReader, sandbox, {
        modelId,
        columns: [...ofAge],
        condition,
        others: [],
      })
      const labels = { modelId, kind: 'LATE_LABELS' } as const
      return [
        ...((await runQuery(sandbox, query, { scope, columns }, 1)).rows[0] ?? []),
        (await countEvents(reader, scope)).events,
        (await countEvents(reader, labels)).events,
      ]
    }
    expect(await sums()).toEqual(['3', 6, 6, 2, 2])
    await stored.void(modelId, 'EVENTS', written.claim, [1])
    expect(await sums()).toEqual(['2', 4, 4, 1, 1])
    await stored.void(modelId, 'LATE_LABELS', written.labelClaim, [2])
    expect(await sums()).toEqual(['2', 4, 1, 1, 0])
  })

  it.each([
    ['1) UNION ALL SELECT (1', 'must be one condition'],
    ['1), (2', 'must be one condition'],
    ['1 FROM MODEL', 'Syntax error'],
    ['feature_age IN (SELECT 1)', 'Subquery is not allowed'],
    ["file('/etc/passwd') != ''", 'the function file is not allowed'],
    ['/*', 'not closed'],
  ])('a condition is one expression on the columns of a row: %s', async (condition, message) => {
    await expect(sandbox.checkCondition(condition)).rejects.toThrow(message)
  })

  it.each([
    [{ rowsReadMax: 5 }, 'SELECT count() FROM MODEL'],
    [{ memoryBytesMax: 1_000_000 }, 'SELECT max(leftPad(predictionId, 900000)) FROM MODEL'],
    [{ timeMsMax: 1 }, 'SELECT count() FROM MODEL a, MODEL b, MODEL c, MODEL d, MODEL e, MODEL f, MODEL g, MODEL h'],
  ])('limits hold: %o', async (more, sql) => {
    const limited = open(more)
    try {
      const query = await sandbox.checkQuery(sql)
      const scope = { modelId: mine(), kind: 'EVENTS' } as const
      await limited.table(`SELECT 1`, [mine()]).catch(() => undefined)
      await expect(runQuery(limited, query, { scope, columns: [] }, 10)).rejects.toThrow(SqlTooLarge)
    } finally {
      await limited.close()
    }
  })
})
