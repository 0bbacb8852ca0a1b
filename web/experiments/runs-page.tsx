import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useRouter, useSearch } from '@tanstack/react-router'
import { type ComponentType, Suspense, useCallback, useMemo, useRef, useState } from 'react'
import { baseUrl, shareCode } from '../api/http.ts'
import { knownColumns, type Run } from '../api/runs.ts'
import { IconButton } from '../kit/button.tsx'
import type { ChartsProps } from '../kit/charts-slot.ts'
import { ArchiveDialog } from '../kit/export/export-dialog.tsx'
import { DotsIcon, DownloadIcon, EyeIcon, EyeOffIcon } from '../kit/icons.tsx'
import { Menu, MenuCheck, MenuItem, MenuLabel, MenuLine } from '../kit/menu.tsx'
import { toPagePath } from '../kit/page-link.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toRunColour, toSwatch } from '../kit/run-colour.ts'
import { Split } from '../kit/split.tsx'
import { toCount, toCountOf } from '../kit/text.ts'
import { useShortcuts } from '../kit/use-shortcuts.ts'
import { BulkBar } from './bulk-bar.tsx'
import { toChoices } from './column-picker.tsx'
import { type ColumnId, type TableColumn, toDefaultColumns, toType, toWidth } from './columns.ts'
import { EmptyProject } from './empty-project.tsx'
import { ExportRuns } from './export-runs.tsx'
import styles from './runs-page.module.css'
import { present, type RunsSearch, splitDefault, toNextSort, toSearchOfChart } from './runs-search.ts'
import { type RowActions, RunsTable } from './runs-table.tsx'
import type { HeadActions } from './table-head.tsx'
import { Toolbar } from './toolbar.tsx'
import { toGroup } from './use-group-runs.ts'
import { useRuns } from './use-runs.ts'
import { groupsMax, useSearchOfView, useShownRuns } from './use-shown-runs.ts'
import { ViewsMenu } from './views-menu.tsx'

const none: ColumnId[] = []
const topChoices = [0, 5, 10, 25, 50, 100]

/** The runs of a project: the table, and beside it the charts of those that are shown. */
export function RunsPage({ Charts }: { Charts?: ComponentType<ChartsProps> }) {
  const { workspace, project: projectName } = useParams({ from: '/$workspace/$project' })
  const url = useSearch({ from: '/$workspace/$project' })
  const names = { workspaceName: workspace, projectName }
  const known = useQuery({
    ...knownColumns(workspace, projectName),
    // A young project shows its first metrics at once.
    refetchInterval: ({ state }) => (state.data?.some((it) => it.source === 'metric') ? 20_000 : 2_000),
  })
  const { project, view, search, isReady: isViewReady } = useSearchOfView(workspace, projectName, url)
  const navigate = useNavigate({ from: '/$workspace/$project' })
  const setUrl = useCallback(
    (next: RunsSearch, replace = false) => navigate({ search: () => present(next), replace }),
    [navigate],
  )
  const onChange = (change: Partial<RunsSearch>) => void setUrl({ ...url, ...change })

  const choices = useMemo(() => toChoices(known.data ?? []), [known.data])
  const types = useMemo(() => new Map(choices.map((it) => [it.id, it])), [choices])
  const defaults = useMemo(() => toDefaultColumns(known.data ?? []), [known.data])
  const chosen = search.columns ?? defaults
  const pinned = search.pinned ?? none
  const ids = useMemo(
    () => [...chosen.filter((it) => pinned.includes(it)), ...chosen.filter((it) => !pinned.includes(it))],
    [chosen, pinned],
  )
  const toColumn = (id: ColumnId): TableColumn => {
    const type = toType(id, types)
    return { id, type, width: search.widths?.[id] ?? toWidth(id, type), isPinned: id === 'name' || pinned.includes(id) }
  }
  const columns = ['name', ...ids].map(toColumn)

  const isReady = (known.data !== undefined || search.columns !== undefined) && isViewReady
  const runs = useRuns(names, ids, search, isReady)
  const { rows, total, groupCount } = runs
  const { loaded, groupBy, isOfGroups, firstKeys, isShown, shown, shownGroups, dashOf, leftOut } = useShownRuns(
    runs,
    search,
  )
  function show(key: string, isOn: boolean) {
    const without = (all: string[] | undefined) => (all ?? []).filter((it) => it !== key)
    const isDefault = firstKeys.has(key) === isOn
    const on = [...without(search.on), ...(isOn && !isDefault ? [key] : [])]
    const off = [...without(search.off), ...(!isOn && !isDefault ? [key] : [])]
    void setUrl({ ...url, on: orNothing(on), off: orNothing(off) }, true)
  }

  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const lastSelected = useRef<string>(undefined)
  const [current, setCurrent] = useState<string>()
  const [exporting, setExporting] = useState<'runs' | 'archive'>()
  const endExport = () => setExporting(undefined)
  const router = useRouter()
  const move = (by: number) => {
    if (loaded.length === 0) return
    const at = loaded.findIndex((it) => it.experimentKey === current)
    const next = at < 0 ? 0 : Math.min(Math.max(at + by, 0), loaded.length - 1)
    setCurrent(loaded[next]?.experimentKey)
  }
  function select(key: string, isSelected: boolean, withShift: boolean) {
    const keys = withShift ? between(loaded, lastSelected.current, key) : [key]
    lastSelected.current = key
    setSelected((before) => {
      const after = new Set(before)
      for (const it of keys) isSelected ? after.add(it) : after.delete(it)
      return after
    })
  }
  useShortcuts({
    j: () => move(1),
    k: () => move(-1),
    h: () => current !== undefined && show(current, !isShown(current)),
    x: () => current !== undefined && select(current, !selected.has(current), false),
    o: () => {
      if (current === undefined) return
      router.history.push(
        new URL(toPagePath(workspace, projectName, current), baseUrl).href.slice(baseUrl.origin.length),
      )
    },
  })

  const head: HeadActions = {
    sort(id, order) {
      const sort = order === undefined ? toNextSort(search.sort, id) : [order === 'asc' ? id : `-${id}`]
      onChange({ sort: sort ?? (view ? [] : undefined) })
    },
    resize: (id, width) => onChange({ widths: { ...search.widths, [id]: width } }),
    move(id, to) {
      if (id === to || !chosen.includes(id)) return
      const rest = ids.filter((it) => it !== id)
      const at = rest.indexOf(to) + (ids.indexOf(id) < ids.indexOf(to) ? 1 : 0)
      onChange({ columns: rest.toSpliced(at, 0, id) })
    },
    pin: (id, isPinned) => onChange({ pinned: isPinned ? [...pinned, id] : pinned.filter((it) => it !== id) }),
    remove: (id) => onChange({ columns: chosen.filter((it) => it !== id) }),
    group: (id) => onChange({ group: [...(search.group ?? []).filter((it) => it !== id), id], open: undefined }),
    replace: (id, by) => onChange({ columns: [...new Set(chosen.map((it) => (it === id ? by : it)))] }),
  }
  const actions: RowActions = {
    select,
    show,
    focus: setCurrent,
    toggleGroup(path, isOpen) {
      const id = JSON.stringify(path)
      const others = (search.open ?? []).filter((it) => JSON.stringify(it) !== id)
      onChange({ open: orNothing(isOpen ? [...others, path] : others) })
    },
  }
  // Rows are drawn anew only when they change, so what they call must be the same each time.
  const latest = useRef(actions)
  latest.current = actions
  const stableActions = useMemo<RowActions>(
    () => ({
      select: (...it) => latest.current.select(...it),
      show: (...it) => latest.current.show(...it),
      focus: (...it) => latest.current.focus(...it),
      toggleGroup: (...it) => latest.current.toggleGroup(...it),
    }),
    [],
  )
  const { fetchNextPage, isFetchingNextPage } = runs
  const onMore = useCallback(() => {
    if (!isFetchingNextPage) void fetchNextPage()
  }, [fetchNextPage, isFetchingNextPage])

  const error = project.error ?? known.error ?? (search.search ? null : runs.error)
  if (error)
    return (
      <ErrorPlace
        error={error}
        onRetry={() => void Promise.all([project.refetch(), known.refetch(), runs.refetch()])}
      />
    )
  const isFiltered = search.filter?.length || search.search || search.archived
  const isEmpty = total === 0 && !isFiltered && project.data?.numberOfExperiments === 0
  if (isEmpty) {
    return (
      <>
        <title>{`${projectName} · svc`}</title>
        <EmptyProject workspace={workspace} project={projectName} />
      </>
    )
  }
  const table = (
    <>
      {runs.error ? (
        <ErrorPlace error={runs.error} onRetry={runs.refetch} />
      ) : total === undefined ? (
        <LoadingPlace rows={12} />
      ) : rows.length === 0 ? (
        <EmptyPlace title="No run matches">
          Remove a filter, or search for less. The project has{' '}
          {toCountOf(project.data?.numberOfExperiments ?? 0, 'run')}.
        </EmptyPlace>
      ) : (
        <RunsTable
          workspace={workspace}
          project={projectName}
          rows={rows}
          columns={columns}
          groupColumns={(search.group ?? []).map(toColumn)}
          sort={search.sort ?? []}
          selected={selected}
          isShown={isShown}
          dashes={dashOf}
          toGroupColour={(path, isDark) => {
            const { key } = toGroup(groupBy, path)
            return isOfGroups && shownGroups.has(key) ? toSwatch(toRunColour(key, isDark), dashOf.get(key)) : undefined
          }}
          current={current}
          hasMore={runs.hasNextPage}
          onMore={onMore}
          actions={stableActions}
          head={head}
          allSelected={toAllSelected(loaded, selected)}
          onSelectAll={(isOn) => setSelected(new Set(isOn ? loaded.map((it) => it.experimentKey) : []))}
          showHead={
            <Menu
              trigger={
                <button
                  type="button"
                  aria-label="Which runs the charts show"
                  title={`${toCount(shown.length)} shown on the charts`}
                >
                  {shown.length > 0 ? <EyeIcon size={14} /> : <EyeOffIcon size={14} />}
                </button>
              }
            >
              <MenuLabel>{toCountOf(shown.length, 'run')} shown on the charts</MenuLabel>
              {topChoices
                .filter((it) => !isOfGroups || it <= groupsMax)
                .map((it) => (
                  <MenuItem key={it} onSelect={() => onChange({ top: it, on: undefined, off: undefined })}>
                    {it === 0 ? 'None' : isOfGroups ? `The first ${it} groups` : `The first ${it}`}
                  </MenuItem>
                ))}
            </Menu>
          }
        />
      )}
      {selected.size > 0 && (
        <BulkBar
          keys={[...selected]}
          workspace={workspace}
          project={projectName}
          isArchived={search.archived === true}
          onClear={() => setSelected(new Set())}
        />
      )}
    </>
  )
  return (
    <div className={styles.page}>
      <title>{`${projectName} · svc`}</title>
      <h1 className="visually-hidden">{`Runs of ${projectName}`}</h1>
      <Toolbar
        project={names}
        search={search}
        onChange={onChange}
        known={choices}
        columns={chosen}
        count={total === undefined ? '' : toSummary(total, groupCount)}
      >
        <Menu
          align="end"
          trigger={
            <IconButton label="More">
              <DotsIcon />
            </IconButton>
          }
        >
          <MenuCheck
            checked={search.archived === true}
            onChange={(archived) => onChange({ archived: archived || undefined })}
          >
            Archived runs
          </MenuCheck>
          <MenuItem
            onSelect={() =>
              navigate({ to: '/$workspace/$project/-/output', params: { workspace, project: projectName } })
            }
          >
            Search the output …
          </MenuItem>
          <MenuItem
            onSelect={() =>
              navigate({ to: '/$workspace/$project/-/notes', params: { workspace, project: projectName } })
            }
          >
            Notes of the project
          </MenuItem>
          {shareCode() === undefined && (
            <>
              <MenuLine />
              <MenuItem icon={<DownloadIcon />} onSelect={() => setExporting('runs')}>
                Export …
              </MenuItem>
              <MenuItem onSelect={() => setExporting('archive')}>Download archive …</MenuItem>
            </>
          )}
        </Menu>
        {project.data && (
          <ViewsMenu
            workspace={workspace}
            projectId={project.data.projectId}
            search={url}
            effective={search}
            onChange={(next) => void setUrl(next)}
          />
        )}
      </Toolbar>
      {exporting === 'runs' && <ExportRuns {...names} search={search} total={total} onClose={endExport} />}
      {exporting === 'archive' && <ArchiveDialog {...names} onClose={endExport} />}
      <div className={styles.body}>
        {Charts && shown.length > 0 ? (
          <Split
            label="Width of the table"
            share={search.split ?? splitDefault}
            onShare={(split) => onChange({ split })}
            left={table}
            right={
              <Suspense fallback={<LoadingPlace rows={8} />}>
                <Charts
                  workspace={workspace}
                  project={projectName}
                  runs={shown}
                  leftOut={leftOut}
                  ofChart={toSearchOfChart(url)}
                  state={search.charts ?? {}}
                  onState={(change) => onChange({ charts: toState({ ...search.charts, ...change }) })}
                />
              </Suspense>
            }
          />
        ) : (
          table
        )}
      </div>
    </div>
  )
}

/** Without what is as it is by default. */
function toState(state: Record<string, unknown>): Record<string, unknown> | undefined {
  const entries = Object.entries(state).filter(([, value]) => value !== undefined)
  return entries.length > 0 ? Object.fromEntries(entries) : undefined
}

const orNothing = <It,>(all: It[]): It[] | undefined => (all.length > 0 ? all : undefined)

const toSummary = (total: number, groups: number | undefined) =>
  groups === undefined ? toCountOf(total, 'run') : `${toCountOf(groups, 'group')}`

function toAllSelected(loaded: Run[], selected: ReadonlySet<string>): boolean | 'some' {
  if (selected.size === 0) return false
  return loaded.every((it) => selected.has(it.experimentKey)) || 'some'
}

function between(loaded: Run[], from: string | undefined, to: string): string[] {
  const places = [from ?? to, to].map((key) => loaded.findIndex((it) => it.experimentKey === key))
  const [first, last] = [Math.min(...places), Math.max(...places)]
  return first < 0 ? [to] : loaded.slice(first, last + 1).map((it) => it.experimentKey)
}
