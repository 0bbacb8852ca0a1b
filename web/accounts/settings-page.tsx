import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, Navigate } from '@tanstack/react-router'
import { type Session, session } from '../api/accounts.ts'
import { LoadingPlace } from '../kit/places.tsx'
import { Clients } from './clients-section.tsx'
import { Keys } from './keys-section.tsx'
import { Members } from './members-section.tsx'
import { Sessions } from './sessions-section.tsx'
import styles from './settings.module.css'
import { ThemeSection } from './theme-section.tsx'
import { Usage } from './usage-section.tsx'

type Section = { id: string; title: string; draw(reader: Session): React.ReactNode }

const sections: Section[] = [
  { id: 'keys', title: 'API keys', draw: (reader) => <Keys reader={reader} /> },
  { id: 'clients', title: 'Connect a client', draw: (reader) => <Clients reader={reader} /> },
  { id: 'sessions', title: 'Sessions', draw: () => <Sessions /> },
  { id: 'members', title: 'Workspace members', draw: (reader) => <Members reader={reader} /> },
  { id: 'usage', title: 'Usage', draw: (reader) => <Usage reader={reader} /> },
  { id: 'theme', title: 'Appearance', draw: () => <ThemeSection /> },
]

/** Links of an earlier version: these are pages of the administration now. */
const moved = ['users', 'service-accounts', 'limits']

const route = getRouteApi('/-/settings')

/** What belongs to the reader. The section is part of the address. */
export function SettingsPage() {
  const { section = 'keys' } = route.useSearch()
  const { data: reader } = useQuery(session)
  if (!reader) return <LoadingPlace />
  if (moved.includes(section)) return <Navigate to="/-/admin/$section" params={{ section }} replace />
  const current = sections.find((it) => it.id === section) ?? (sections[0] as Section)
  const link = ({ id, title }: Section) => (
    <Link
      key={id}
      to="/-/settings"
      search={{ section: id }}
      className={styles.link}
      aria-current={id === current.id ? 'page' : undefined}
    >
      {title}
    </Link>
  )
  return (
    <div className={styles.page}>
      <title>{`${current.title} · svc`}</title>
      <nav aria-label="Settings" className={styles.nav}>
        <p className={styles.reader} title={`${reader.userName} of ${reader.organizationName}`}>
          {reader.userName}
          <span>{reader.organizationName}</span>
        </p>
        {sections.map(link)}
        {(reader.isAdmin || reader.isAuditor) && (
          <>
            <h2>Organization</h2>
            <Link to="/-/admin" className={styles.link}>
              Administration
            </Link>
          </>
        )}
        <p className={styles.version}>svc {reader.version}</p>
      </nav>
      <section className={styles.section} aria-labelledby="section">
        <h1 id="section">{current.title}</h1>
        {current.draw(reader)}
      </section>
    </div>
  )
}
