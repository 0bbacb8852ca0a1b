import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import {
  delays as delaysQuery,
  deleteSegment,
  driftMap,
  type Name,
  quality as qualityQuery,
  type Segment,
  type Time,
  type VersionCounts,
} from '../api/monitoring.ts'
import { Button, IconButton } from '../kit/button.tsx'
import { FormDialog } from '../kit/dialog.tsx'
import { PlusIcon, TrashIcon } from '../kit/icons.tsx'
import { toCount } from '../kit/text.ts'
import { useMayWrite } from '../kit/use-may-write.ts'
import { sortByDrift, toWindowLevel } from './drift-level.ts'
import styles from './production.module.css'
import { AddSegment } from './segment-dialog.tsx'
import { Legend, Strip } from './strip.tsx'
import { toFilter, toShare, toShort } from './words.ts'

type Props = { name: Name; time: Time; hasReference: boolean; versions: VersionCounts[]; segments: Segment[] }

/** Versions and segments side by side, over the same time. */
export function CompareTab({ name, time, hasReference, versions, segments }: Props) {
  const [isAdding, setAdding] = useState(false)
  const [deleted, setDeleted] = useState<Segment>()
  const client = useQueryClient()
  const mayWrite = useMayWrite(name.workspaceName)
  return (
    <>
      <Table title="Versions" label="Version">
        <Row name={name} time={time} hasReference={hasReference} title="all" of={{}} />
        {versions.map((it) => (
          <Row
            key={it.modelVersion}
            name={name}
            time={time}
            hasReference={hasReference}
            title={it.modelVersion || 'without a version'}
            of={{ modelVersion: it.modelVersion }}
          />
        ))}
      </Table>
      <Table
        title="Segments"
        label="Segment"
        action={
          mayWrite && (
            <Button size="small" onClick={() => setAdding(true)}>
              <PlusIcon size={14} /> Add a segment
            </Button>
          )
        }
      >
        <Row name={name} time={time} hasReference={hasReference} title="all events" of={{}} />
        {segments.map((it) => (
          <Row
            key={it.segmentId}
            name={name}
            time={time}
            hasReference={hasReference}
            title={it.name}
            hint={it.filters.map(toFilter).join(' and ')}
            of={{ segment: it.name }}
            onDelete={mayWrite ? () => setDeleted(it) : undefined}
          />
        ))}
      </Table>
      {segments.length === 0 && (
        <p className={styles.soft}>
          A segment is a part of the events, such as those of one country: models often drift for a part only.
        </p>
      )}
      <Legend of="model" />
      {isAdding && <AddSegment name={name} hasReference={hasReference} onClose={() => setAdding(false)} />}
      {deleted && (
        <FormDialog
          title={`Delete the segment ${deleted.name}?`}
          action="Delete segment"
          danger
          onClose={() => setDeleted(undefined)}
          onSubmit={() => deleteSegment(client, name, deleted)}
        >
          <p>Its events stay.</p>
        </FormDialog>
      )}
    </>
  )
}

function Table({
  title,
  label,
  action,
  children,
}: {
  title: string
  label: string
  action?: React.ReactNode
  children: React.ReactNode
}) {
  return (
    <section className={styles.section} aria-labelledby={`compare-${label}`}>
      <div className={styles.sectionHeader}>
        <h2 id={`compare-${label}`}>{title}</h2>
        <span className={styles.gap} />
        {action}
      </div>
      <div className={styles.frame}>
        <table className={styles.table}>
          <thead>
            <tr>
              <th scope="col">{label}</th>
              <th scope="col" className={styles.number}>
                Events
              </th>
              <th scope="col">Drift</th>
              <th scope="col">Drifted most</th>
              <th scope="col" className={styles.number}>
                Quality
              </th>
              <th scope="col" className={styles.number}>
                Labelled
              </th>
              <th scope="col">
                <span className="visually-hidden">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>{children}</tbody>
        </table>
      </div>
    </section>
  )
}

type RowProps = {
  name: Name
  time: Time
  hasReference: boolean
  title: string
  hint?: string
  of: { modelVersion?: string; segment?: string }
  onDelete?: (() => void) | undefined
}

function Row({ name, time, hasReference, title, hint, of, onDelete }: RowProps) {
  const scope = { ...name, ...of }
  const { from, to } = time
  const drift = useQuery({ ...driftMap({ ...scope, ...time }, { hasReference }), placeholderData: keepPreviousData })
  const quality = useQuery({ ...qualityQuery({ ...scope, from, to }), placeholderData: keepPreviousData })
  const delays = useQuery({ ...delaysQuery({ ...scope, from, to }), placeholderData: keepPreviousData })
  const map = drift.data
  const worst = map
    ? sortByDrift(map.features)
        .filter((it) => it.drifted.includes(true))
        .slice(0, 3)
    : []
  const whole = quality.data?.windows[0]
  const value =
    quality.data?.task === 'regression' ? toShort(whole?.meanAbsoluteError ?? null) : toShare(whole?.accuracy ?? null)
  const counted = delays.data?.windows[0]
  const drifted = map?.windows.filter((it) => it.drifted).length ?? 0
  return (
    <tr>
      <td title={hint ?? title}>
        <Link
          to="/$workspace/-/production/$model"
          params={{ workspace: name.workspaceName, model: name.modelName }}
          search={(old) => ({ ...old, tab: undefined, version: of.modelVersion, segment: of.segment })}
          className={styles.name}
        >
          {title}
        </Link>
        {hint && <span className={styles.soft}>{` ${hint}`}</span>}
      </td>
      <td className={styles.number}>{counted && toCount(counted.predictions)}</td>
      <td className={styles.wide}>
        {map ? (
          <Strip
            levels={map.windows.map(toWindowLevel)}
            label={`${title}: drifted in ${drifted} of ${map.windows.length} windows`}
          />
        ) : (
          <span className={styles.faint}>{map === null ? 'no reference' : (drift.error?.message ?? 'reading …')}</span>
        )}
      </td>
      <td>{worst.map((it) => it.name).join(', ')}</td>
      <td className={styles.number}>{whole && value}</td>
      <td className={styles.number}>{counted && toShare(counted.coverage)}</td>
      <td className={styles.number}>
        {onDelete && (
          <IconButton label={`Delete ${title}`} size="small" onClick={onDelete}>
            <TrashIcon size={14} />
          </IconButton>
        )}
      </td>
    </tr>
  )
}
