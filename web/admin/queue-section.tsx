import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type Queue, queue } from '../api/admin.ts'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toCount, toCountOf, toDuration } from '../kit/text.ts'
import styles from './admin.module.css'
import { toTypeName } from './words.ts'

const againMs = 2_000
/** Of the limit of blocks: as `svc doctor` warns. */
const shareHigh = 0.25
/** Of the memory of Redis, at which writes are refused. */
const memoryShareMax = 0.75
const lateMs = 60_000

/** What was accepted and is not stored yet, in plain sentences and by queue. */
export function QueueSection() {
  const { data, error, refetch } = useQuery({ ...queue, refetchInterval: againMs })
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  const nowMs = Date.now()
  return (
    <>
      <p className={styles.intro}>
        What is accepted waits here until a worker has stored it in ClickHouse. The oldest block tells by how much
        charts lag.
      </p>
      <ul className={styles.sentences}>
        {toSentences(data, nowMs).map(({ state, text }) => (
          <li key={text} data-state={state}>
            {text}
          </li>
        ))}
      </ul>
      <div className={styles.frame}>
        <table className={styles.table} aria-label="Queues">
          <thead>
            <tr>
              <th scope="col">Queue</th>
              <th scope="col" className={styles.number}>
                Waiting
              </th>
              <th scope="col" className={styles.number}>
                Being stored
              </th>
              <th scope="col" className={styles.number}>
                To be repeated
              </th>
              <th scope="col" className={styles.number}>
                Oldest
              </th>
            </tr>
          </thead>
          <tbody>
            {data.queues.map((it) => (
              <tr key={it.queue}>
                <td>{toTypeName(it.queue)}</td>
                <td className={styles.number}>{toCount(it.waiting)}</td>
                <td className={styles.number}>{toCount(it.active)}</td>
                <td className={styles.number}>{toCount(it.delayed)}</td>
                <td className={styles.number}>
                  {it.oldestAt === null ? <span className={styles.faint}>empty</span> : toDuration(nowMs - it.oldestAt)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className={styles.soft}>
        {`Blocks of rows, in ${data.kind === 'redis' ? 'Redis' : 'Postgres'}. At ${toCount(data.blocksMax)} blocks of a queue, writes of that kind are refused until there is room.`}
        {data.kind === 'redis' && ` Redis uses ${Math.round(data.memoryShare * 100)} % of its memory.`}
      </p>
      {data.deadLetters.letters > 0 && (
        <p>
          <Link to="/-/admin/$section" params={{ section: 'dead-letters' }}>
            {toCountOf(data.deadLetters.letters, 'dead letter')}
          </Link>
        </p>
      )}
    </>
  )
}

type Sentence = { state: 'ok' | 'warning' | 'wrong'; text: string }

function toSentences({ queues, blocksMax, memoryShare, webhooks, deadLetters }: Queue, nowMs: number): Sentence[] {
  const depths = queues.map((it) => ({ ...it, blocks: it.waiting + it.active + it.delayed }))
  const blocks = depths.reduce((sum, it) => sum + it.blocks, 0)
  const oldestMs = Math.max(0, ...queues.map((it) => (it.oldestAt === null ? 0 : nowMs - it.oldestAt)))
  const found: Sentence[] = []
  if (blocks === 0) found.push({ state: 'ok', text: 'Everything that was accepted is stored.' })
  else if (oldestMs <= lateMs) {
    found.push({
      state: 'ok',
      text: `${toCountOf(blocks, 'block')} on the way; the oldest was accepted ${toDuration(oldestMs)} ago.`,
    })
  } else {
    found.push({
      state: 'wrong',
      text: `The oldest block was accepted ${toDuration(oldestMs)} ago: charts lag by that. Check that workers and ClickHouse run.`,
    })
  }
  const repeated = queues.reduce((sum, it) => sum + it.delayed, 0)
  if (repeated > 0) {
    found.push({
      state: 'warning',
      text: `${toCountOf(repeated, 'block')} could not be stored and will be tried again: ClickHouse may be away.`,
    })
  }
  for (const it of depths.filter((it) => it.blocks > blocksMax * shareHigh)) {
    found.push({
      state: it.blocks >= blocksMax ? 'wrong' : 'warning',
      text: `${toTypeName(it.queue)}: ${toCount(it.blocks)} of at most ${toCount(blocksMax)} blocks. Workers cannot keep up; start more of them.`,
    })
  }
  if (memoryShare > memoryShareMax) {
    found.push({
      state: 'wrong',
      text: 'Redis has no room left: writes are refused until workers have emptied the queue.',
    })
  }
  if (webhooks.oldestDueAt !== null && nowMs - webhooks.oldestDueAt > lateMs) {
    found.push({
      state: 'warning',
      text: `A webhook has been due for ${toDuration(nowMs - webhooks.oldestDueAt)}: check that a worker sends them.`,
    })
  } else if (webhooks.pending > 0) {
    found.push({
      state: 'ok',
      text: `${toCountOf(webhooks.pending, 'webhook')} to be sent, now or once a receiver is back.`,
    })
  }
  if (deadLetters.letters > 0) {
    found.push({
      state: 'warning',
      text: `ClickHouse refused ${toCountOf(deadLetters.rows, 'row')} for good. They are kept as dead letters.`,
    })
  }
  return found
}
