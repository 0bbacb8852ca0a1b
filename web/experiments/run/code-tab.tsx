import { useQuery } from '@tanstack/react-query'
import { code, graph, type Metadata, patch } from '../../api/run.ts'
import { CodeView } from '../../kit/code/code-view.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../../kit/places.tsx'
import { CopyButton } from '../../kit/snippet.tsx'
import { PatchView } from '../output/patch-view.tsx'
import styles from './run-page.module.css'

/** The source code of a run, and what was not committed of it. */
export function CodeTab({ run }: { run: Metadata }) {
  const key = run.experimentKey
  const source = useQuery(code(key))
  const changes = useQuery(patch(key))
  const error = source.error ?? changes.error
  if (error) return <ErrorPlace error={error} onRetry={() => Promise.all([source.refetch(), changes.refetch()])} />
  if (source.data === undefined || changes.data === undefined) return <LoadingPlace rows={12} />
  if (!source.data && !changes.data) {
    return (
      <EmptyPlace title="No code">
        The client logs the program and its uncommitted changes when it runs from a script or in a git repository.
      </EmptyPlace>
    )
  }
  return (
    <div className={styles.reading}>
      {changes.data && (
        <section className={styles.section} aria-label="Git patch">
          <div className={styles.sectionHeader}>
            <h2>Uncommitted changes</h2>
            <CopyButton text={changes.data} label="Copy the patch" />
          </div>
          <PatchView patch={changes.data} />
        </section>
      )}
      {source.data && (
        <section className={styles.section} aria-label="Source code">
          <div className={styles.sectionHeader}>
            <h2>{run.filePath ?? 'Source code'}</h2>
          </div>
          <CodeView text={source.data} fileName={run.filePath ?? 'code.py'} />
        </section>
      )}
    </div>
  )
}

/** The graph of the model, as it was logged. */
export function GraphTab({ experimentKey }: { experimentKey: string }) {
  const { data, error, refetch } = useQuery(graph(experimentKey))
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (data === undefined) return <LoadingPlace rows={12} />
  if (!data)
    return <EmptyPlace title="No graph">The description of the model that the client logs appears here.</EmptyPlace>
  return (
    <div className={styles.reading}>
      <CodeView text={data} fileName={/^\s*[{[]/.test(data) ? 'graph.json' : 'graph.txt'} />
    </div>
  )
}
