import { useQuery } from '@tanstack/react-query'
import { type DeadLetter, deadLetter } from '../api/admin.ts'
import { Button } from '../kit/button.tsx'
import { Dialog } from '../kit/dialog.tsx'
import { LoadingPlace } from '../kit/places.tsx'
import { toBytes, toCountOf, toTime } from '../kit/text.ts'
import styles from './admin.module.css'
import { toHexDump, toTypeName } from './words.ts'

type Props = {
  deadLetterId: string
  onClose(): void
  onAct(what: 'replay' | 'discard', letter: DeadLetter): void
}

/** A dead letter with its error, its first rows and its first bytes. */
export function LetterDialog({ deadLetterId, onClose, onAct }: Props) {
  const { data, error } = useQuery({ ...deadLetter(deadLetterId), retry: false })
  return (
    <Dialog title={`Dead letter ${deadLetterId}`} width={760} onClose={onClose}>
      {error ? (
        <p role="alert">{error.message}</p>
      ) : !data ? (
        <LoadingPlace rows={4} />
      ) : (
        <div className={styles.letter}>
          <p className={styles.soft}>
            {`${toCountOf(data.rows, 'row')} of ${toTypeName(data.queue).toLowerCase()}, ${toBytes(data.bytes)}, accepted ` +
              `${toTime(data.receivedAt)}, set aside ${toTime(data.setAsideAt)}.`}
          </p>
          <Text title="Error of ClickHouse" text={data.reason} />
          {data.content === null ? (
            <p className={styles.warning}>The block is damaged: its rows cannot be read.</p>
          ) : (
            <Text
              title={data.rows > data.content.length ? `The first ${data.content.length} rows` : 'Rows'}
              text={data.content.map((it) => JSON.stringify(it)).join('\n')}
            />
          )}
          <Text title="First bytes" text={toHexDump(data.firstBytes)} isTable />
          <div className={styles.tools}>
            <span className={styles.gap} />
            <Button onClick={() => onAct('discard', data)}>Discard</Button>
            <Button look="primary" onClick={() => onAct('replay', data)}>
              Replay
            </Button>
          </div>
        </div>
      )}
    </Dialog>
  )
}

function Text({ title, text, isTable = false }: { title: string; text: string; isTable?: boolean }) {
  return (
    <section className={styles.text} aria-label={title}>
      <h3>{title}</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a long text is scrolled by keyboard */}
      <pre tabIndex={0} className={isTable ? undefined : styles.wrapped}>
        {text}
      </pre>
    </section>
  )
}
