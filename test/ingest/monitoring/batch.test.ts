import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Database, openDatabase } from '../../../store/postgres/database.ts'
import { anEvent, kindOf, readStoredEvents, type StoredEvent } from '../../kit/clients/monitoring.ts'
import { eventually } from '../../kit/eventually.ts'
import { availableQueues, openTestService, storesWith, uniqueName } from '../../kit/service.ts'

/** Events from the request to the rows, on both queues. */
describe.each(availableQueues())('with the queue in %s', (queue) => {
  const stores = storesWith(queue)
  let service: Awaited<ReturnType<typeof openTestService>>
  let database: Database
  beforeAll(async () => {
    service = await openTestService({ stores, settings: { SVC_QUEUE_PREFIX: uniqueName('monitoring') } })
    database = openDatabase({ url: stores.postgresUrl, onError: () => undefined })
  })
  afterAll(async () => {
    await service?.close()
    await database?.close()
  })

  const send = async (data: unknown[], query = '', path = 'events') =>
    await service.client.post(`/mpm/v2/${path}/batch${query}`, {
      data: data.map((it) => ({ workspaceName: service.workspaceName, ...(it as object) })),
    })

  async function read(modelName: string, count: number): Promise<StoredEvent[]> {
    const row = await database.row<{ id: bigint }>(
      `SELECT m.id FROM monitored_models m JOIN workspaces w ON w.id = m.workspace_id WHERE w.name = $1 AND m.name = $2`,
      [service.workspaceName, modelName],
    )
    return await eventually(async () => {
      const events = await readStoredEvents(stores.clickhouseUrl, row?.id ?? 0n)
      const isWhole = events.every((it) => it.values.length > 0)
      if (events.length < count || !isWhole) throw new Error(`${events.length} events of ${count} are there`)
      return events
    })
  }

  it('an event is stored with its scalars and their types', async () => {
    const modelName = uniqueName('model')
    const features = { int: 7, float: 0.1, yes: true, no: false, text: 'é"\\', none: null, zero: 0, empty: '' }
    const answer = await send([anEvent({ modelName, predictionId: 'a', features, prediction: 3 })])
    expect(answer.body).toEqual({
      msg: 'Saved',
      code: 200,
      data: null,
      sdk_error_code: 0,
      accepted: 1,
      duplicates: 0,
      rejected: 0,
      labels: { accepted: 0, duplicates: 0 },
      faults: [],
    })
    const [event, ...more] = await read(modelName, 1)
    expect(more).toEqual([])
    expect(event).toMatchObject({ predictionId: 'a', kind: 1, version: '1.0.0', timestamp: 1_700_000_000_000 })
    expect(event?.values).toEqual([
      '1 empty 4 0 ',
      '1 float 2 0.1 ',
      '1 int 1 7 ',
      '1 no 3 0 ',
      '1 none 0 0 ',
      '1 text 4 0 é"\\',
      '1 yes 3 1 ',
      '1 zero 1 0 ',
      '2 value 1 3 ',
    ])
  })

  it('an integer beyond the precision of a float keeps its digits', async () => {
    const modelName = uniqueName('model')
    const body = JSON.stringify({ data: [{ workspaceName: service.workspaceName, ...anEvent({ modelName }) }] })
    const exact = body.replace('"age":42', '"age":9007199254740993,"most":-9223372036854775808')
    expect((await service.client.postRaw('/mpm/v2/events/batch', exact)).body.accepted).toBe(1)
    const [event] = await read(modelName, 1)
    expect(event?.values[0]).toBe('1 age 1 9007199254740992 9007199254740993')
    expect(event?.values).toContain('1 most 1 -9223372036854776000 -9223372036854775808')
  })

  it('the first of a prediction id is kept: in one request, and in later ones', async () => {
    const modelName = uniqueName('model')
    const first = anEvent({ modelName, predictionId: 'a', features: { at: 1 } })
    const second = anEvent({ modelName, predictionId: 'a', features: { at: 2 } })
    const other = anEvent({ modelName, predictionId: 'b', features: { at: 3 } })
    expect((await send([first, second, other])).body).toMatchObject({ accepted: 2, duplicates: 1, rejected: 0 })
    expect((await send([second])).body).toMatchObject({ accepted: 0, duplicates: 1 })
    const events = await read(modelName, 2)
    expect(events.map((it) => [it.predictionId, it.values[0]])).toEqual([
      ['a', '1 at 1 1 '],
      ['b', '1 at 1 3 '],
    ])
  })

  it('the same prediction id is another event for another model and another workspace', async () => {
    const [one, two] = [uniqueName('model'), uniqueName('model')]
    const workspaceName = uniqueName('workspace')
    await service.client.post('/write/workspace/new', { name: workspaceName })
    const sent = [
      anEvent({ modelName: one, predictionId: 'a' }),
      anEvent({ modelName: two, predictionId: 'a' }),
      anEvent({ modelName: one, predictionId: 'a', workspaceName }),
    ]
    expect((await send(sent)).body).toMatchObject({ accepted: 3, duplicates: 0 })
    expect(await read(one, 1)).toHaveLength(1)
    expect(await read(two, 1)).toHaveLength(1)
  })

  it('labels come before, with or after their event; the first ones stay', async () => {
    const modelName = uniqueName('model')
    const label = (predictionId: string, labels: unknown, more = {}) =>
      send([{ modelName, predictionId, labels, ...more }], '', 'labels')
    expect((await label('before', { value: 1 })).body).toMatchObject({
      accepted: 1,
      labels: { accepted: 1, duplicates: 0 },
    })
    const events = [
      anEvent({ modelName, predictionId: 'before', labels: { value: 2 } }),
      anEvent({ modelName, predictionId: 'with', labels: { value: 3 } }),
      anEvent({ modelName, predictionId: 'after' }),
    ]
    expect((await send(events)).body).toMatchObject({ accepted: 3, labels: { accepted: 1, duplicates: 1 } })
    expect((await label('with', { value: 4 })).body).toMatchObject({ accepted: 0, duplicates: 1 })
    // A label by itself, through the call of events, in the other spelling.
    const late = { modelName, predictionId: 'after', value: 5, timestamp: 1_700_000_000_001 }
    expect((await send([late])).body).toMatchObject({ accepted: 1, labels: { accepted: 1, duplicates: 0 } })

    const stored = await read(modelName, 6)
    const labels = stored.filter((it) => it.kind === kindOf('LATE_LABELS'))
    expect(stored.filter((it) => it.kind === kindOf('EVENTS')).map((it) => it.predictionId)).toEqual([
      'after',
      'before',
      'with',
    ])
    expect(labels.map((it) => [it.predictionId, it.values])).toEqual([
      ['after', ['3 value 1 5 ']],
      ['before', ['3 value 1 1 ']],
      ['with', ['3 value 1 3 ']],
    ])
  })

  it('both spellings, integers as strings and absent fields are accepted', async () => {
    const modelName = uniqueName('model')
    const sent = {
      modelName,
      predictionId: 17,
      timestamp: '1700000000000',
      predictions: { value: 0.5, probability: 1 },
      value: { churned: false },
      features: null,
      unknownField: {},
    }
    expect((await send([sent])).body).toMatchObject({ accepted: 1, labels: { accepted: 1 }, rejected: 0 })
    const events = await read(modelName, 2)
    expect(events.map((it) => [it.kind, it.predictionId, it.version, it.timestamp, it.values])).toEqual([
      [1, '17', '', 1_700_000_000_000, ['2 probability 1 1 ', '2 value 2 0.5 ']],
      [3, '17', '', 1_700_000_000_000, ['3 churned 3 0 ']],
    ])
  })

  it('an event of 30,000 features is accepted', async () => {
    const modelName = uniqueName('model')
    const features = Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [`feature ${at}`, at / 7]))
    expect((await send([anEvent({ modelName, features, prediction: undefined })])).body).toMatchObject({ accepted: 1 })
    const [event] = await read(modelName, 1)
    expect(event?.values).toHaveLength(30_000)
  })

  it('concurrent requests with the same ids store each id once, and the accepted event is read', async () => {
    const modelName = uniqueName('model')
    const ids = Array.from({ length: 20 }, (_, at) => `id-${at}`)
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, writer) =>
        send(
          ids
            .toSorted(() => Math.random() - 0.5)
            .map((predictionId) => anEvent({ modelName, predictionId, features: { writer }, prediction: undefined })),
        ),
      ),
    )
    expect(answers.map((it) => it.status)).toEqual(answers.map(() => 200))
    const accepted = answers.map(({ body }) => body.accepted as number)
    expect(accepted.reduce((sum, it) => sum + it)).toBe(20)
    const stored = await read(modelName, 20)
    expect(stored.map((it) => it.predictionId)).toEqual(ids.toSorted())
    const byWriter = Map.groupBy(stored, (it) => it.values[0])
    expect(accepted.map((_, writer) => byWriter.get(`1 writer 1 ${writer} `)?.length ?? 0)).toEqual(accepted)
  })
})
