import { getRouteApi } from '@tanstack/react-router'
import { EmptyPlace } from '../kit/places.tsx'
import styles from './lineage.module.css'
import { toLineageOf } from './lineage-search.ts'
import { LineageView } from './lineage-view.tsx'

const route = getRouteApi('/$workspace/-/lineage')

/** The lineage of one thing of a workspace. */
export function LineagePage() {
  const { workspace } = route.useParams()
  const { list = false, ...search } = route.useSearch()
  const navigate = route.useNavigate()
  const of = toLineageOf(search)
  return (
    <div className={styles.page}>
      <title>{`Lineage · ${workspace} · svc`}</title>
      <header className={styles.header}>
        <h1>Lineage</h1>
      </header>
      <div className={styles.content}>
        {of ? (
          <LineageView
            of={of}
            asList={list}
            onList={(it) => void navigate({ search: (old) => ({ ...old, list: it || undefined }), replace: true })}
          />
        ) : (
          <EmptyPlace title="Nothing is chosen">
            The page of a run, of an artifact version or of a registered version leads to its lineage.
          </EmptyPlace>
        )}
      </div>
    </div>
  )
}
