import { useQuery } from '@tanstack/react-query'
import { metadata } from '../api/run.ts'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import styles from './artifacts.module.css'

/** A link to a run by its key; what it is called is read. */
export function RunName({ experimentKey }: { experimentKey: string }) {
  const { data, error } = useQuery({ ...metadata(experimentKey), retry: false, refetchInterval: false })
  if (error && !data) {
    return (
      <span className={styles.faint} title={experimentKey}>
        deleted, or not for you to see
      </span>
    )
  }
  if (!data) return null
  return (
    <PageLink path={toPagePath(data.workspaceName, data.projectName, experimentKey)}>{data.experimentName}</PageLink>
  )
}

export function Labels({ aliases, tags }: { aliases: string[]; tags: string[] }) {
  return (
    <span className={styles.labels}>
      {aliases.map((it) => (
        <span key={`alias ${it}`} className={styles.alias} title={`Alias ${it}`}>
          {it}
        </span>
      ))}
      {tags.map((it) => (
        <span key={`tag ${it}`} className={styles.badge} title={`Tag ${it}`}>
          {it}
        </span>
      ))}
    </span>
  )
}

/** Metadata as it was sent; of an object its fields. Nothing where there is none. */
export function Metadata({ text }: { text: string | null }) {
  if (text === null || text === '' || text === '{}') return null
  const fields = toFields(text)
  return (
    <section className={styles.section} aria-labelledby="metadata">
      <div className={styles.sectionHeader}>
        <h2 id="metadata">Metadata</h2>
      </div>
      {fields ? (
        <dl className={styles.facts}>
          {fields.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      ) : (
        <pre className={styles.raw}>{text}</pre>
      )}
    </section>
  )
}

function toFields(text: string): [string, string][] | undefined {
  try {
    const parsed: unknown = JSON.parse(text)
    if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) return undefined
    return Object.entries(parsed).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ])
  } catch {
    return undefined
  }
}
