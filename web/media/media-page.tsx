import { useQueries } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { metadata } from '../api/run.ts'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { toCountOf } from '../kit/text.ts'
import styles from './media.module.css'
import { MediaView } from './media-view.tsx'

const route = getRouteApi('/$workspace/$project/-/media')

/** The media of several runs side by side. */
export function MediaPage() {
  const { workspace, project } = route.useParams()
  const { runs: keys, ...state } = route.useSearch()
  const navigate = route.useNavigate()
  const read = useQueries({ queries: keys.map((it) => metadata(it)) })
  if (keys.length === 0) {
    return (
      <EmptyPlace
        title="No run is chosen"
        action={
          <Link to="/$workspace/$project" params={{ workspace, project }}>
            Choose runs of {project}
          </Link>
        }
      >
        Choose runs in the table, then “Compare” and “Media”.
      </EmptyPlace>
    )
  }
  const error = read.find((it) => it.error)?.error
  if (error) return <ErrorPlace error={error} />
  if (read.some((it) => it.data === undefined)) return <LoadingPlace />
  const runs = read.map(({ data }, at) => ({
    experimentKey: keys[at] as string,
    name: data?.experimentName ?? '',
  }))
  return (
    <div className={styles.page}>
      <title>{`Media of ${toCountOf(keys.length, 'run')} · ${project} · svc`}</title>
      <header className={styles.header}>
        <h1>Media of {toCountOf(keys.length, 'run')}</h1>
        {keys.length > 1 && (
          <Link to="/$workspace/$project/-/compare" params={{ workspace, project }} search={{ keys }}>
            Compare their values
          </Link>
        )}
      </header>
      <div className={styles.content}>
        <MediaView
          {...{ workspace, project, runs, state }}
          isLive={read.some((it) => it.data?.running)}
          onState={(change) => void navigate({ search: (it) => ({ ...it, ...change }), replace: true })}
        />
      </div>
    </div>
  )
}
