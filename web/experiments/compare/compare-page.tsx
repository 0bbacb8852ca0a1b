import { getRouteApi, Link } from '@tanstack/react-router'
import { lazy, Suspense, useMemo } from 'react'
import { Checkbox, Input, Select } from '../../kit/field.tsx'
import { PageLink, toPagePath } from '../../kit/page-link.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { toCountOf } from '../../kit/text.ts'
import styles from './compare.module.css'
import { type CompareSearch, runsMax, views } from './compare-search.ts'
import { toRows } from './compared.ts'
import { Plots } from './plots.tsx'
import { useCompared } from './use-compared.ts'
import { ValuesView } from './values-view.tsx'

const TextDiff = lazy(() => import('./text-diff.tsx').then((it) => ({ default: it.TextDiff })))

const route = getRouteApi('/$workspace/$project/-/compare')

/** Runs side by side. */
export function ComparePage() {
  const { workspace, project } = route.useParams()
  const search = route.useSearch()
  const navigate = route.useNavigate()
  const { keys, view = 'values', differs = false, baseline, find = '' } = search
  const { runs, isLoading, error } = useCompared(keys)
  const rows = useMemo(() => toRows(runs), [runs])
  const change = (it: Partial<CompareSearch>) => navigate({ search: (old) => ({ ...old, ...it }), replace: true })
  if (keys.length < 2) {
    return (
      <EmptyPlace
        title="Nothing to compare"
        action={
          <Link to="/$workspace/$project" params={{ workspace, project }}>
            Choose runs of {project}
          </Link>
        }
      >
        Choose two to {runsMax} runs of the table.
      </EmptyPlace>
    )
  }
  if (error) return <ErrorPlace error={error} />
  const words = find.toLowerCase()
  const shown = rows.filter((it) => (!differs || it.differs) && it.name.toLowerCase().includes(words))
  return (
    <div className={styles.page}>
      <title>{`Compare ${keys.length} runs · ${project} · svc`}</title>
      <header className={styles.header}>
        <h1>{toCountOf(keys.length, 'run')} compared</h1>
        <nav className={styles.views} aria-label="What is compared">
          {views.map(({ name, label }) => (
            <Link
              key={name}
              from="/$workspace/$project/-/compare"
              to="."
              search={({ view: _, ...rest }) => ({ ...rest, ...(name !== 'values' && { view: name }) })}
              className={styles.viewLink}
              activeOptions={{ exact: true }}
              aria-current={name === view ? 'page' : undefined}
            >
              {label}
            </Link>
          ))}
          <PageLink
            path={`${toPagePath(workspace, project)}/-/media?${new URLSearchParams({ runs: JSON.stringify(keys) })}`}
            className={styles.viewLink}
          >
            Media
          </PageLink>
        </nav>
      </header>
      {view === 'values' && (
        <div className={styles.bar}>
          <Input
            type="search"
            aria-label="Search names"
            placeholder="Search names"
            value={find}
            onChange={(event) => change({ find: event.target.value || undefined })}
          />
          <Checkbox checked={differs} onChange={(event) => change({ differs: event.target.checked || undefined })}>
            Differences only
          </Checkbox>
          <span className={styles.choice}>
            Baseline
            <Select
              aria-label="Baseline"
              value={baseline ?? ''}
              onChange={(event) => change({ baseline: event.target.value || undefined })}
            >
              <option value="">None</option>
              {runs.map((it) => (
                <option key={it.experimentKey} value={it.experimentKey}>
                  {it.name}
                </option>
              ))}
            </Select>
          </span>
        </div>
      )}
      <div className={styles.content}>
        <Suspense fallback={<LoadingPlace />}>
          {isLoading ? (
            <LoadingPlace />
          ) : view === 'values' ? (
            <ValuesView runs={runs} rows={shown} baseline={baseline} workspace={workspace} project={project} />
          ) : view === 'plots' ? (
            <Plots runs={runs} rows={rows} x={search.x} y={search.y} onChange={change} />
          ) : (
            <TextDiff key={view} of={view} runs={runs} left={search.left} right={search.right} onChange={change} />
          )}
        </Suspense>
      </div>
    </div>
  )
}
