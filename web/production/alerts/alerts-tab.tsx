import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import {
  changeRule,
  deleteRule,
  type Firing,
  firings as firingsQuery,
  type Name,
  type Rule,
  refreshMonitored,
  rules as rulesQuery,
  type Time,
  type VersionCounts,
} from '../../api/monitoring.ts'
import { Button, IconButton } from '../../kit/button.tsx'
import { FormDialog } from '../../kit/dialog.tsx'
import { PlusIcon, TrashIcon } from '../../kit/icons.tsx'
import { PageLink, toPagePath } from '../../kit/page-link.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { toCountOf } from '../../kit/text.ts'
import { toastError } from '../../kit/toast.tsx'
import { useMayWrite } from '../../kit/use-may-write.ts'
import type { Level } from '../drift-level.ts'
import styles from '../production.module.css'
import { Strip } from '../strip.tsx'
import { toLength, toMeasure, toValue } from '../words.ts'
import { AddRule } from './add-rule.tsx'
import { ModelFirings } from './model-firings.tsx'

const againMs = 5_000

type On = { feature?: string; part?: 'prediction' }
type Props = {
  name: Name
  time: Time
  hasReference: boolean
  versions: VersionCounts[]
  /** What a new rule is on; undefined while none is made. */
  ruleOn: On | undefined
  onRuleOn(on: On | undefined): void
}

/** The rules of a model, when they fired, and who was told. */
export function AlertsTab({ name, time, hasReference, versions, ruleOn, onRuleOn }: Props) {
  const rules = useQuery({ ...rulesQuery(name), refetchInterval: againMs })
  const firings = useQuery({ ...firingsQuery(name), refetchInterval: againMs })
  const [deleted, setDeleted] = useState<Rule>()
  const mayWrite = useMayWrite(name.workspaceName)
  const client = useQueryClient()
  if (rules.error && !rules.data) return <ErrorPlace error={rules.error} onRetry={() => rules.refetch()} />
  if (!rules.data || !firings.data) return <LoadingPlace />
  const all = firings.data.firings
  const pause = async (rule: Rule) => {
    await changeRule(name, rule.alertId, { paused: !rule.paused })
    await refreshMonitored(client, name)
  }
  return (
    <>
      <section className={styles.section} aria-labelledby="rules">
        <div className={styles.sectionHeader}>
          <h2 id="rules">Rules</h2>
          <span className={styles.gap} />
          <PageLink path={`${toPagePath(name.workspaceName)}/-/webhooks`}>Webhooks</PageLink>
          {mayWrite && (
            <Button size="small" onClick={() => onRuleOn({})}>
              <PlusIcon size={14} /> Add a rule
            </Button>
          )}
        </div>
        {rules.data.alerts.length === 0 ? (
          <EmptyPlace title="No rule">
            A rule looks at each window of time once it has ended: drift, missing values, quality, or the number of
            events. When it fires, webhooks for “alert fired” are told.
          </EmptyPlace>
        ) : (
          <div className={styles.frame}>
            <table className={styles.table}>
              <thead>
                <tr>
                  <th scope="col">Rule</th>
                  <th scope="col">Fires when</th>
                  <th scope="col">Firings</th>
                  <th scope="col">State</th>
                  <th scope="col">
                    <span className="visually-hidden">Actions</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {rules.data.alerts.map((it) => (
                  <RuleRow
                    key={it.alertId}
                    rule={it}
                    firings={all.filter(({ alertId }) => alertId === it.alertId)}
                    time={time}
                    mayWrite={mayWrite}
                    onPause={() => pause(it).catch(toastError)}
                    onDelete={() => setDeleted(it)}
                  />
                ))}
              </tbody>
            </table>
          </div>
        )}
      </section>
      <Firings firings={all} />
      {ruleOn && (
        <AddRule
          name={name}
          on={ruleOn}
          time={time}
          hasReference={hasReference}
          versions={versions}
          onClose={() => onRuleOn(undefined)}
        />
      )}
      {deleted && (
        <FormDialog
          title={`Delete the rule ${deleted.name}?`}
          action="Delete rule"
          danger
          onClose={() => setDeleted(undefined)}
          onSubmit={async () => {
            await deleteRule(name, deleted.alertId)
            await refreshMonitored(client, name)
          }}
        >
          <p>Its firings go with it, for good.</p>
        </FormDialog>
      )}
    </>
  )
}

type RowProps = { rule: Rule; firings: Firing[]; time: Time; mayWrite: boolean; onPause(): void; onDelete(): void }

function RuleRow({ rule, firings, time, mayWrite, onPause, onDelete }: RowProps) {
  const { name, measure, comparison, threshold, feature, modelVersion, windowMs, paused, evaluatedTo, problem } = rule
  const { from = 0, to = 0, interval } = time
  const levels = Array.from({ length: Math.max(1, Math.ceil((to - from) / interval)) }, (_, at): Level => {
    const [start, end] = [from + at * interval, from + (at + 1) * interval]
    if (start >= evaluatedTo) return null
    return firings.some((it) => it.windowFrom < end && it.windowTo > start) ? 3 : 0
  })
  const isFiring = !paused && firings.some((it) => it.windowTo === evaluatedTo)
  return (
    <tr>
      <td className={styles.name} title={name}>
        {name}
      </td>
      <td className={styles.wrap}>
        {`${toMeasure(measure)}${feature === null ? '' : ` of ${feature}`} ${comparison} ${toValue(measure, threshold)}, windows of ${toLength(windowMs)}`}
        {modelVersion !== null && `, version ${modelVersion}`}
      </td>
      <td className={styles.wide}>
        <Strip levels={levels} label={`${name}: ${toCountOf(firings.length, 'firing')}`} />
      </td>
      <td className={styles.wrap}>
        <span className={styles.state} data-state={isFiring ? 'firing' : undefined}>
          {paused ? 'paused' : isFiring ? 'firing' : 'quiet'}
        </span>
        {problem !== null && <span className={styles.soft}>{`: ${problem}`}</span>}
      </td>
      <td className={styles.number}>
        {mayWrite && (
          <>
            <Button size="small" look="quiet" aria-label={`${paused ? 'Resume' : 'Pause'} ${name}`} onClick={onPause}>
              {paused ? 'Resume' : 'Pause'}
            </Button>
            <IconButton label={`Delete ${name}`} size="small" onClick={onDelete}>
              <TrashIcon size={14} />
            </IconButton>
          </>
        )}
      </td>
    </tr>
  )
}

function Firings({ firings }: { firings: Firing[] }) {
  return (
    <section className={styles.section} aria-labelledby="firings">
      <div className={styles.sectionHeader}>
        <h2 id="firings">Firings</h2>
        <span className={styles.faint}>{firings.length > 0 && `the last ${firings.length}`}</span>
      </div>
      {firings.length === 0 ? <p className={styles.soft}>No rule has fired.</p> : <ModelFirings firings={firings} />}
    </section>
  )
}
