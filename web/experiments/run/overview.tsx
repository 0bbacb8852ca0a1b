import { useQuery } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import {
  dependencies,
  type Git,
  git,
  type LoggedValue,
  live,
  type Metadata,
  metrics,
  others,
  parameters,
  type System,
  system,
} from '../../api/run.ts'
import { CopyButton } from '../../kit/snippet.tsx'
import { toAgo, toDuration, toNumber, toTime } from '../../kit/text.ts'
import { notesName } from './notes-name.ts'
import styles from './run-page.module.css'
import { type Row, ValuesTable } from './values-table.tsx'

/** What there is to know of a run at a glance. */
export function Overview({ run }: { run: Metadata }) {
  const { experimentKey: key, running } = run
  const measured = useQuery({ ...metrics(key), ...live(running) })
  const set = useQuery({ ...parameters(key), ...live(running) })
  const logged = useQuery({ ...others(key), ...live(running) })
  const machine = useQuery(system(key)).data
  const commit = useQuery(git(key)).data
  const packages = useQuery(dependencies(key)).data ?? []
  return (
    <div className={styles.overview}>
      <div className={styles.column}>
        {run.throttle && (
          <div className={styles.warning} role="status">
            <strong>{run.throttleMessage ?? 'Some of the data was not stored.'}</strong>
            {run.throttleReasons?.map((it) => (
              <p key={it}>{it}</p>
            ))}
          </div>
        )}
        {run.hasCrashed && (
          <div className={styles.error} role="status">
            <strong>The run crashed.</strong>
            {run.error && <pre>{run.error}</pre>}
          </div>
        )}
        <ValuesTable
          title="Metrics"
          columns={['Last', 'Min', 'Max', 'Step']}
          rows={(measured.data ?? []).filter((it) => !it.name.startsWith('sys.')).map(toMetricRow)}
          empty="No point has been logged yet."
        />
        <ValuesTable
          title="Parameters"
          columns={['Value']}
          rows={(set.data ?? []).map(toRow)}
          empty="No parameter has been logged."
        />
        <ValuesTable
          title="Others"
          columns={['Value']}
          rows={(logged.data ?? []).filter((it) => it.name !== 'Name' && it.name !== notesName).map(toRow)}
          empty="Nothing else has been logged."
        />
      </div>
      <div className={styles.column}>
        <Facts title="Run" facts={toRunFacts(run)} />
        <Facts title="Git" facts={commit ? toGitFacts(commit) : []} />
        <Facts title="Machine" facts={machine ? toMachineFacts(machine) : []} />
        <ValuesTable
          title="Packages"
          columns={['Version']}
          rows={toPackages(packages, machine)}
          empty="No package has been logged."
        />
      </div>
    </div>
  )
}

const toRow = ({ name, valueCurrent }: LoggedValue): Row => ({ name, cells: [{ text: valueCurrent }] })

function toMetricRow({ name, valueCurrent, valueMin, valueMax, stepCurrent, stepMin, stepMax }: LoggedValue): Row {
  const cell = (value: string, step: number | null) => ({
    text: toNumber(Number(value)),
    title: step === null ? value : `${value} at step ${step}`,
  })
  return {
    name,
    cells: [
      cell(valueCurrent, stepCurrent),
      cell(valueMin, stepMin),
      cell(valueMax, stepMax),
      { text: stepCurrent === null ? '' : String(stepCurrent) },
    ],
  }
}

type Fact = [name: string, value: ReactNode]

function Facts({ title, facts }: { title: string; facts: Fact[] }) {
  const known = facts.filter(([, value]) => value !== null && value !== undefined && value !== '')
  return (
    <section className={styles.section} aria-label={title}>
      <div className={styles.sectionHeader}>
        <h2>{title}</h2>
      </div>
      {known.length === 0 ? (
        <p className={styles.faint}>Nothing has been logged.</p>
      ) : (
        <dl className={styles.facts}>
          {known.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
    </section>
  )
}

function toRunFacts(run: Metadata): Fact[] {
  return [
    ['Started', run.startTimeMillis > 0 && `${toTime(run.startTimeMillis)} (${toAgo(run.startTimeMillis)})`],
    ['Ended', !run.running && run.endTimeMillis > 0 ? toTime(run.endTimeMillis) : null],
    ['Duration', toDuration(run.running ? Date.now() - run.startTimeMillis : run.durationMillis)],
    ['By', run.userName],
    ['File', run.filePath],
    [
      'Key',
      <span key="key" className={styles.key}>
        <code>{run.experimentKey}</code>
        <CopyButton text={run.experimentKey} label="Copy the key" />
      </span>,
    ],
  ]
}

function toGitFacts({ origin, branch, parent, user, root }: Git): Fact[] {
  const isWeb = /^https?:\/\//.test(origin ?? '')
  return [
    [
      'Origin',
      isWeb ? (
        <a key="origin" href={origin as string} target="_blank" rel="noreferrer">
          {origin}
        </a>
      ) : (
        origin
      ),
    ],
    ['Branch', branch],
    ['Commit', parent && <code key="commit">{parent}</code>],
    ['User', user],
    ['Root', root],
  ]
}

const text = (it: unknown) => (typeof it === 'string' || typeof it === 'number' ? String(it) : null)

function toMachineFacts(it: System): Fact[] {
  const ram = Number(it.totalRam)
  return [
    ['Host', text(it.hostname)],
    ['System', text(it.os) ?? text(it.osType)],
    ['Processor', text(it.processor)],
    ['Memory', ram > 0 ? `${toNumber(Number((ram / 2 ** 30).toFixed(1)))} GiB` : null],
    ...(it.gpuStaticInfoList ?? []).map(
      ({ gpuIndex, name, totalMemory }): Fact => [
        `GPU ${gpuIndex}`,
        totalMemory > 0 ? `${name}, ${toNumber(Number((totalMemory / 2 ** 30).toFixed(1)))} GiB` : name,
      ],
    ),
    ['Python', text(it.pythonVersion)],
    ['Executable', text(it.executable)],
    ['Command', it.command && <code key="command">{it.command.join(' ')}</code>],
    ['Process', text(it.pid)],
    ['User', text(it.user)],
  ]
}

function toPackages(listed: { name: string; version: string }[], machine: System | undefined): Row[] {
  const named = listed.map(({ name, version }) => ({ name, cells: [{ text: version }] }))
  if (named.length > 0) return named
  return (machine?.installedPackages ?? []).map((it) => {
    const [name = it, version = ''] = it.split(/==(.*)/)
    return { name, cells: [{ text: version }] }
  })
}
