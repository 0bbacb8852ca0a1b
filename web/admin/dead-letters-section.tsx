import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import {
  type DeadLetter,
  discardDeadLetters,
  readDeadLetters,
  refreshDeadLetters,
  replayDeadLetters,
} from '../api/admin.ts'
import { Button } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toAgo, toCountOf, toTime } from '../kit/text.ts'
import { toast } from '../kit/toast.tsx'
import styles from './admin.module.css'
import { LetterDialog } from './letter-dialog.tsx'
import { useAdminSearch } from './use-admin-search.ts'
import { toTypeName } from './words.ts'

const againMs = 5_000
/** A call takes this many. */
const idsAtOnce = 100

type Asked = { what: 'replay' | 'discard'; letters: DeadLetter[] }

/** Rows that ClickHouse refused for good: looked at, put into the queue again, or given up. */
export function DeadLettersSection() {
  const { search, change } = useAdminSearch()
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const [asked, setAsked] = useState<Asked>()
  const pages = useInfiniteQuery({
    queryKey: ['admin', 'dead-letters'],
    queryFn: ({ pageParam: page, signal }) => readDeadLetters(page, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextPage ?? undefined,
    refetchInterval: ({ state }) => (state.error ? false : againMs),
  })
  if (pages.error && !pages.data) return <ErrorPlace error={pages.error} onRetry={() => pages.refetch()} />
  if (!pages.data) return <LoadingPlace />
  const letters = pages.data.pages.flatMap((it) => it.deadLetters)
  const { total = 0, totalRows = 0 } = pages.data.pages[0] ?? {}
  const selected = letters.filter((it) => chosen.has(it.deadLetterId))
  const choose = (ids: string[], isChosen: boolean) => {
    const next = new Set(chosen)
    for (const id of ids) isChosen ? next.add(id) : next.delete(id)
    setChosen(next)
  }
  return (
    <>
      <p className={styles.intro}>
        A dead letter holds rows that were accepted and that ClickHouse refuses for good: a table that was changed by
        hand, or a fault of svc. Remove the reason, then replay it. Nothing is lost while it is here.
      </p>
      {letters.length === 0 ? (
        <EmptyPlace title="No dead letter">ClickHouse took every row that was accepted, or still will.</EmptyPlace>
      ) : (
        <>
          <div className={styles.tools}>
            <span className={styles.soft}>
              {`${toCountOf(total, 'dead letter')} with ${toCountOf(totalRows, 'row')}`}
              {selected.length > 0 && `, ${selected.length} chosen`}
            </span>
            <span className={styles.gap} />
            <Button
              look="primary"
              disabled={selected.length === 0}
              onClick={() => setAsked({ what: 'replay', letters: selected })}
            >
              Replay chosen
            </Button>
            <Button disabled={selected.length === 0} onClick={() => setAsked({ what: 'discard', letters: selected })}>
              Discard chosen
            </Button>
          </div>
          <div className={styles.frame}>
            <table className={styles.table} aria-label="Dead letters">
              <thead>
                <tr>
                  <th scope="col" className={styles.check}>
                    <input
                      type="checkbox"
                      aria-label="Choose all shown"
                      checked={selected.length === letters.length}
                      onChange={(event) =>
                        choose(
                          letters.map((it) => it.deadLetterId),
                          event.target.checked,
                        )
                      }
                    />
                  </th>
                  <th scope="col">Id</th>
                  <th scope="col">Set aside</th>
                  <th scope="col">What</th>
                  <th scope="col" className={styles.number}>
                    Rows
                  </th>
                  <th scope="col">Reason</th>
                  <th scope="col" className={styles.end}>
                    <span className="visually-hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {letters.map((it) => (
                  <tr key={it.deadLetterId}>
                    <td className={styles.check}>
                      <input
                        type="checkbox"
                        aria-label={`Choose ${it.deadLetterId}`}
                        checked={chosen.has(it.deadLetterId)}
                        onChange={(event) => choose([it.deadLetterId], event.target.checked)}
                      />
                    </td>
                    <td>{it.deadLetterId}</td>
                    <td className={styles.soft} title={toTime(it.setAsideAt)}>
                      {toAgo(it.setAsideAt)}
                    </td>
                    <td>{toTypeName(it.queue)}</td>
                    <td className={styles.number}>{it.rows}</td>
                    <td title={it.reason}>{it.reason.split('\n')[0]}</td>
                    <td className={styles.end}>
                      <Button
                        size="small"
                        aria-label={`Look at ${it.deadLetterId}`}
                        onClick={() => change({ letter: it.deadLetterId }, { replace: false })}
                      >
                        Look
                      </Button>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          {pages.hasNextPage && (
            <div className={styles.tools}>
              <Button onClick={() => pages.fetchNextPage()} disabled={pages.isFetchingNextPage}>
                Show older ones
              </Button>
            </div>
          )}
        </>
      )}
      {search.letter !== undefined && (
        <LetterDialog
          deadLetterId={search.letter}
          onClose={() => change({ letter: undefined })}
          onAct={(what, letter) => {
            change({ letter: undefined })
            setAsked({ what, letters: [letter] })
          }}
        />
      )}
      {asked && <Confirm asked={asked} onClose={() => setAsked(undefined)} onDone={() => setChosen(new Set())} />}
    </>
  )
}

type Confirmed = { asked: Asked; onClose(): void; onDone(): void }

function Confirm({ asked: { what, letters }, onClose, onDone }: Confirmed) {
  const client = useQueryClient()
  const count =
    letters.length === 1 ? `dead letter ${letters[0]?.deadLetterId}` : toCountOf(letters.length, 'dead letter')
  const rows = toCountOf(
    letters.reduce((sum, it) => sum + it.rows, 0),
    'row',
  )
  async function act() {
    const ids = letters.map((it) => it.deadLetterId)
    let missing = 0
    try {
      for (let at = 0; at < ids.length; at += idsAtOnce) {
        const call = what === 'replay' ? replayDeadLetters : discardDeadLetters
        missing += (await call(ids.slice(at, at + idsAtOnce))).missing.length
      }
    } finally {
      await refreshDeadLetters(client)
    }
    onDone()
    const done = toCountOf(ids.length - missing, 'dead letter')
    const gone = missing === 0 ? '' : `; ${missing} had gone already`
    toast(what === 'replay' ? `Replayed ${done}${gone}` : `Discarded ${done}${gone}`)
  }
  if (what === 'replay') {
    return (
      <FormDialog title={`Replay ${count}?`} action="Replay" onClose={onClose} onSubmit={act}>
        <p>{`To be stored: ${rows}. What ClickHouse still refuses comes back as another dead letter.`}</p>
      </FormDialog>
    )
  }
  return (
    <FormDialog title={`Discard ${count}?`} action="Discard for good" danger onClose={onClose} onSubmit={act}>
      <p>{`To be deleted for good, although it was accepted: ${rows}. The audit log keeps that you did it.`}</p>
    </FormDialog>
  )
}
