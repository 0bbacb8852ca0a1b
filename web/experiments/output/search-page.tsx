import { keepPreviousData, useInfiniteQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { searchOutput } from '../../api/output.ts'
import { Button, join } from '../../kit/button.tsx'
import { Checkbox } from '../../kit/field.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { SearchField } from '../../kit/search-field.tsx'
import { toCount, toCountOf, toTime } from '../../kit/text.ts'
import styles from './search-page.module.css'
import { palette, Styled } from './styled.tsx'
import { toRow } from './terminal.ts'

const route = getRouteApi('/$workspace/$project/-/output')

/** Runs of a project by what they printed. */
export function OutputSearchPage() {
  const { workspace, project } = route.useParams()
  const { find = '', stderr } = route.useSearch()
  const navigate = route.useNavigate()
  const { data, error, refetch, isPending, hasNextPage, fetchNextPage, isFetchingNextPage } = useInfiniteQuery({
    queryKey: ['output search', workspace, project, find, stderr],
    queryFn: ({ pageParam: cursor, signal }) =>
      searchOutput({ workspaceName: workspace, projectName: project, search: find, stderr, cursor }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextCursor,
    placeholderData: keepPreviousData,
    enabled: find !== '',
  })
  const pages = data?.pages ?? []
  const runs = pages.flatMap((it) => it.runs)
  const searched = pages.reduce((sum, it) => sum + it.searched, 0)
  const total = pages.at(-1)?.total ?? 0
  return (
    <div className={styles.page}>
      <title>{`Search output · ${project} · svc`}</title>
      <header className={styles.header}>
        <h1>Search the output of {project}</h1>
        <div className={styles.bar}>
          <SearchField
            label="Text that runs printed"
            className={styles.search}
            text={find}
            onChange={(text) =>
              navigate({ search: { ...(text && { find: text }), ...(stderr && { stderr }) }, replace: true })
            }
          />
          <Checkbox
            checked={stderr ?? false}
            onChange={(event) =>
              navigate({
                search: { ...(find && { find }), ...(event.target.checked && { stderr: true as const }) },
                replace: true,
              })
            }
          >
            stderr only
          </Checkbox>
          {data && find !== '' && (
            <span className={styles.count} role="status">
              {toCountOf(runs.length, 'run')} found, {toCount(searched)} of {toCount(total)} searched
            </span>
          )}
        </div>
      </header>
      {find === '' ? (
        <EmptyPlace title="Which runs printed it?">
          An error message, a host name, a file: every run of the project that printed the text is listed, with the
          lines.
        </EmptyPlace>
      ) : error ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : isPending ? (
        <LoadingPlace rows={8} />
      ) : runs.length === 0 && !hasNextPage ? (
        <EmptyPlace title="No run printed it">Letters match in both cases; colours are left out.</EmptyPlace>
      ) : (
        <ol className={join(styles.runs, palette)}>
          {runs.map((run) => (
            <li key={run.experimentKey} className={styles.run}>
              <h2>
                <Link
                  to="/$workspace/$project/$key"
                  params={{ workspace, project, key: run.experimentKey }}
                  search={{ tab: 'output', find, ...(stderr && { stderr }) }}
                >
                  {run.name}
                </Link>
                <span className={styles.count}>{toCountOf(run.found, 'line')}</span>
              </h2>
              {run.lines.map((line) => (
                <Link
                  key={line.number}
                  to="/$workspace/$project/$key"
                  params={{ workspace, project, key: run.experimentKey }}
                  search={{ tab: 'output' }}
                  hash={`L${line.number + 1}`}
                  className={styles.line}
                  title={`Line ${toCount(line.number + 1)}, ${toTime(line.timestamp)}`}
                >
                  <span className={styles.number}>{line.number + 1}</span>
                  <code>
                    <Styled spans={toRow(line.output).spans} mark={find} />
                  </code>
                </Link>
              ))}
            </li>
          ))}
        </ol>
      )}
      {hasNextPage && (
        <Button className={styles.more} onClick={() => fetchNextPage()} disabled={isFetchingNextPage}>
          {isFetchingNextPage ? 'Searching …' : 'Search older runs'}
        </Button>
      )}
    </div>
  )
}
