import { createClosers } from '../../runtime/closers.ts'
import { type ClickHouse, openClickHouse } from '../../store/clickhouse/connection.ts'
import { discardDeadLetter, readDeadRows, replayDeadLetter } from '../../store/dead-letters.ts'
import { firstOrganization } from '../../store/postgres/accounts/accounts.ts'
import type { Actor } from '../../store/postgres/accounts/audit.ts'
import { findOrganization } from '../../store/postgres/accounts/users.ts'
import { type Database, openDatabase } from '../../store/postgres/database.ts'
import { type DeadLetter, findDeadLetter, listDeadLetters } from '../../store/postgres/dead-letters.ts'
import { openQueueBackend } from '../../store/queue/open-queue.ts'
import type { QueueBackend } from '../../store/queue/queue.ts'
import { type QueueName, queues } from '../../store/queue/queues.ts'
import { parseOperatorSettings, toClickHouse } from '../settings.ts'

const usage = 'Usage: svc dead-letters list | show ID | replay ID | replay all | discard ID'
const listedMax = 1_000

type Parts = { database: Database; clickhouse: ClickHouse; backend: QueueBackend; json: boolean }

/**
 * Lists, shows, replays and discards rows that ClickHouse refused for good.
 *
 * @throws Error with the usage for wrong arguments
 */
export async function deadLetters([action, which, ...more]: string[], { json }: { json: boolean }): Promise<void> {
  const act = action && Object.hasOwn(actions, action) ? actions[action as keyof typeof actions] : undefined
  if (!act || more.length > 0) throw new Error(usage)
  const settings = parseOperatorSettings(process.env)
  const closers = createClosers()
  try {
    const database = openDatabase({ url: settings.postgresUrl, connectionsMax: 1, onError: () => undefined })
    closers.push(() => database.close())
    const clickhouse = openClickHouse(toClickHouse(settings))
    closers.push(() => clickhouse.close())
    const backend = openQueueBackend({
      ...settings,
      prefix: settings.queuePrefix,
      shards: settings.queueShards,
      replicas: settings.queueReplicas,
      onError: () => undefined,
    })
    closers.push(() => backend.close())
    await act({ database, clickhouse, backend, json }, which)
  } finally {
    await closers.closeAll()
  }
}

const actions = { list, show, replay, discard }

async function list({ database, json }: Parts, which: string | undefined) {
  if (which !== undefined) throw new Error(usage)
  const letters = (await listDeadLetters(database, listedMax)).map(toShown)
  if (json) return print(JSON.stringify(letters))
  if (letters.length === 0) return print('There are no dead letters.')
  for (const it of letters) print(`${it.id}  ${it.setAsideAt}  ${it.queue}  ${it.rows} rows  ${firstLine(it.reason)}`)
}

/** Shows the rows of a dead letter. ClickHouse decodes them without storing them. */
async function show({ database, clickhouse, json }: Parts, which: string | undefined) {
  const letter = await requireLetter(database, which)
  const rows = await readDeadRows(clickhouse, letter.bytes)
  if (json) return print(JSON.stringify({ ...toShown(letter), content: rows }))
  for (const [name, value] of Object.entries(toShown(letter))) print(`${name.padEnd(12)} ${value}`)
  print(rows === undefined ? 'The block is damaged: its rows cannot be read.' : '')
  for (const row of rows ?? []) print(JSON.stringify(row))
}

/** Queues the rows, then deletes the dead letter. A crash in between repeats rows; reads merge repeated rows. */
async function replay({ database, backend }: Parts, which: string | undefined) {
  const ids = which === 'all' ? (await listDeadLetters(database, listedMax)).map((it) => it.id) : [toId(which)]
  const actor = await findActor(database)
  for (const id of ids.toReversed()) {
    const { queue, rows } = requireThere(await replayDeadLetter({ database, backend }, actor, id), id)
    const table = queues[queue as QueueName].table.name
    print(`Dead letter ${id} was put into the queue again (${rows} ${rows === 1 ? 'row' : 'rows'} for ${table}).`)
  }
  if (ids.length === 0) print('There are no dead letters.')
}

async function discard({ database }: Parts, which: string | undefined) {
  const id = toId(which)
  const letter = requireThere(await discardDeadLetter({ database }, await findActor(database), id), id)
  print(`Dead letter ${letter.id} was discarded (${letter.rows} rows).`)
}

/** Who is named in the audit log; undefined before the first start of the service, which makes the organization. */
async function findActor(database: Database): Promise<Actor | undefined> {
  const organization = await findOrganization(database, firstOrganization)
  return organization && { ...organization, userName: 'svc dead-letters' }
}

async function requireLetter(database: Database, which: string | undefined) {
  const id = toId(which)
  return requireThere(await findDeadLetter(database, id), id)
}

function toId(which: string | undefined): bigint {
  if (which === undefined || !/^\d{1,18}$/.test(which)) throw new Error(usage)
  return BigInt(which)
}

function requireThere<T>(letter: T | undefined, id: bigint): T {
  if (!letter) throw new Error(`There is no dead letter ${id}. "svc dead-letters list" lists all.`)
  return letter
}

function toShown({ id, queue, rows, receivedMs, reason, setAsideAt }: DeadLetter) {
  return {
    id: String(id),
    queue,
    rows,
    received: new Date(Number(receivedMs)).toISOString(),
    setAsideAt: setAsideAt.toISOString(),
    reason,
  }
}

function firstLine(text: string): string {
  return (text.split('\n')[0] as string).slice(0, 200)
}

function print(line: string) {
  process.stdout.write(`${line}\n`)
}
