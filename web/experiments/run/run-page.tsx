import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { type ComponentType, lazy, Suspense, useMemo } from 'react'
import { type Metadata, metadata, readAgain } from '../../api/run.ts'
import type { ChartsProps } from '../../kit/charts-slot.ts'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { toRunColour } from '../../kit/run-colour.ts'
import { useIsDark } from '../../kit/theme.ts'
import { useLive } from '../../kit/use-live.ts'
import { State } from '../cells.tsx'
import { FileLink } from './file-link.tsx'
import { Neighbours } from './neighbours.tsx'
import { Overview } from './overview.tsx'
import { type RegisterProps, RunActions } from './run-actions.tsx'
import styles from './run-page.module.css'
import type { FilesProps, LineageProps, MediaProps } from './slots.ts'
import { Tabs } from './tabs.tsx'
import { TagsEditor } from './tags-editor.tsx'

const SystemTab = lazy(() => import('./system-tab.tsx').then((it) => ({ default: it.SystemTab })))
const OutputTab = lazy(() => import('./output-tab.tsx').then((it) => ({ default: it.OutputTab })))
const CodeTab = lazy(() => import('./code-tab.tsx').then((it) => ({ default: it.CodeTab })))
const NotesTab = lazy(() => import('./notes-tab.tsx').then((it) => ({ default: it.NotesTab })))
const GraphTab = lazy(() => import('./code-tab.tsx').then((it) => ({ default: it.GraphTab })))

const route = getRouteApi('/$workspace/$project/$key')

type Slots = {
  Charts: ComponentType<ChartsProps>
  Register: ComponentType<RegisterProps>
  Files: ComponentType<FilesProps>
  Lineage: ComponentType<LineageProps>
  Media: ComponentType<MediaProps>
}

/** One run. `Charts` draws its metrics, `Register` is the dialog that registers a model of it, others are tabs. */
export function RunPage({ Charts, Register, Files, Lineage, Media }: Slots) {
  const { workspace, project, key } = route.useParams()
  const { tab = 'overview', charts, system, media, file, list = false } = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error, refetch } = useQuery(metadata(key))
  const isDark = useIsDark()
  const client = useQueryClient()
  useLive(data?.running ? [key] : [], () => readAgain(client, key))
  const name = data?.experimentName ?? ''
  const shown = useMemo(() => [{ experimentKey: key, name }], [key, name])
  if (error && !data) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  const isLive = data.running
  return (
    <div className={styles.page}>
      <title>{`${data.experimentName} · ${project} · svc`}</title>
      <header className={styles.header}>
        <span className={styles.colour} style={{ background: toRunColour(key, isDark) }} />
        <h1 title={data.experimentName}>{data.experimentName}</h1>
        <State state={toState(data)} />
        {data.archived && <span className={styles.badge}>Archived</span>}
        <TagsEditor experimentKey={key} workspaceName={data.workspaceName} />
        <span className={styles.gap} />
        <Neighbours workspace={workspace} project={project} experimentKey={key} />
        <RunActions run={data} Register={Register} />
      </header>
      <Tabs current={tab} />
      <div className={styles.content}>
        <Suspense fallback={<LoadingPlace />}>
          {tab === 'overview' && <Overview run={data} />}
          {tab === 'charts' && (
            <Charts
              workspace={workspace}
              project={project}
              runs={shown}
              state={charts ?? {}}
              ofChart={{ runs: [key] }}
              onState={(change) =>
                navigate({ search: (it) => ({ ...it, charts: { ...it.charts, ...change } }), replace: true })
              }
            />
          )}
          {tab === 'system' && (
            <SystemTab
              Charts={Charts}
              experimentKey={key}
              isLive={isLive}
              workspace={workspace}
              project={project}
              runs={shown}
              state={system ?? {}}
              ofChart={{ runs: [key] }}
              onState={(change) =>
                navigate({ search: (it) => ({ ...it, system: { ...it.system, ...change } }), replace: true })
              }
            />
          )}
          {tab === 'output' && <OutputTab experimentKey={key} isLive={isLive} />}
          {tab === 'media' && (
            <Media
              {...{ workspace, project, name, isLive }}
              experimentKey={key}
              state={media ?? {}}
              onState={(change) =>
                navigate({ search: (it) => ({ ...it, media: { ...it.media, ...change } }), replace: true })
              }
            />
          )}
          {tab === 'files' && (
            <Files
              of={{ experimentKey: key }}
              isLive={isLive}
              chosen={file}
              FileLink={FileLink}
              empty={
                <EmptyPlace title="No files">
                  Images, models, tables and any other file that the run logs appear here.
                </EmptyPlace>
              }
            />
          )}
          {tab === 'lineage' && (
            <Lineage
              of={{ experimentKey: key }}
              asList={list}
              onList={(it) => navigate({ search: (old) => ({ ...old, list: it || undefined }), replace: true })}
            />
          )}
          {tab === 'code' && <CodeTab run={data} />}
          {tab === 'notes' && <NotesTab experimentKey={key} workspaceName={data.workspaceName} />}
          {tab === 'graph' && <GraphTab experimentKey={key} />}
        </Suspense>
      </div>
    </div>
  )
}

function toState({ running, hasCrashed, throttle }: Metadata): string {
  if (running) return throttle ? 'throttled' : 'running'
  return hasCrashed ? 'crashed' : 'finished'
}
