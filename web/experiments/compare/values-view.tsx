import { PageLink, toPagePath } from '../../kit/page-link.tsx'
import { toDashes, toRunColour, toSwatch } from '../../kit/run-colour.ts'
import { toNumber } from '../../kit/text.ts'
import { useIsDark } from '../../kit/theme.ts'
import styles from './compare.module.css'
import { type ComparedRow, type ComparedRun, toChange, toFinite } from './compared.ts'

type Props = {
  runs: ComparedRun[]
  rows: ComparedRow[]
  baseline: string | undefined
  workspace: string
  project: string
}

/** A row for each parameter and metric, a column for each run. */
export function ValuesView({ runs, rows, baseline, workspace, project }: Props) {
  const isDark = useIsDark()
  const dashOf = toDashes(runs.map((it) => it.experimentKey))
  const from = runs.findIndex((it) => it.experimentKey === baseline)
  if (rows.length === 0) return <p className={styles.none}>Nothing to show: the runs do not differ, or no name fits.</p>
  return (
    <table className={styles.table}>
      <thead>
        <tr>
          <th scope="col">Name</th>
          {runs.map(({ experimentKey, name }) => (
            <th key={experimentKey} scope="col" title={name}>
              <span
                className={styles.dot}
                style={{ background: toSwatch(toRunColour(experimentKey, isDark), dashOf.get(experimentKey)) }}
              />
              <PageLink path={toPagePath(workspace, project, experimentKey)}>{name}</PageLink>
            </th>
          ))}
        </tr>
      </thead>
      {(['parameter', 'metric'] as const).map((kind) => {
        const members = rows.filter((it) => it.kind === kind)
        if (members.length === 0) return null
        return (
          <tbody key={kind}>
            <tr className={styles.kind}>
              <th scope="rowgroup" colSpan={runs.length + 1}>
                {kind === 'parameter' ? 'Parameters' : 'Metrics, last value'}
              </th>
            </tr>
            {members.map(({ id, name, values, differs }) => (
              <tr key={id} data-differs={differs || undefined}>
                <th scope="row" title={name}>
                  {name}
                </th>
                {values.map((value, at) => (
                  <td key={runs[at]?.experimentKey} title={value}>
                    {value === undefined ? <span className={styles.absent}>–</span> : toShown(value)}
                    {from >= 0 && at !== from && <Change value={value} baseline={values[from]} />}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        )
      })}
    </table>
  )
}

function Change({ value, baseline }: { value: string | undefined; baseline: string | undefined }) {
  const change = toChange(value, baseline)
  return change && <span className={styles.change}>{change}</span>
}

function toShown(value: string): string {
  const number = toFinite(value)
  return number === undefined ? value : toNumber(number)
}
