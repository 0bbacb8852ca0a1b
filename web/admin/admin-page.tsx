import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { type Session, session } from '../api/accounts.ts'
import { EmptyPlace, LoadingPlace } from '../kit/places.tsx'
import styles from './admin.module.css'
import { AuditSection } from './audit-section.tsx'
import { BackupsSection } from './backups-section.tsx'
import { DeadLettersSection } from './dead-letters-section.tsx'
import { HealthSection } from './health-section.tsx'
import { KeysSection } from './keys-section.tsx'
import { LimitsSection } from './limits-section.tsx'
import { QueueSection } from './queue-section.tsx'
import { RetentionSection } from './retention-section.tsx'
import { ServiceAccounts } from './service-accounts-section.tsx'
import { Users } from './users-section.tsx'

/** Auditors read those that change nothing. */
type Section = {
  id: string
  title: string
  isOfService?: boolean
  isForAuditors?: boolean
  draw(reader: Session): React.ReactNode
}

const allSections: Section[] = [
  { id: 'users', title: 'Users', isForAuditors: true, draw: (reader) => <Users reader={reader} /> },
  {
    id: 'service-accounts',
    title: 'Service accounts',
    isForAuditors: true,
    draw: (reader) => <ServiceAccounts reader={reader} />,
  },
  { id: 'keys', title: 'API keys', isForAuditors: true, draw: (reader) => <KeysSection reader={reader} /> },
  { id: 'limits', title: 'Limits', draw: (reader) => <LimitsSection reader={reader} /> },
  { id: 'retention', title: 'Retention', draw: (reader) => <RetentionSection reader={reader} /> },
  { id: 'audit', title: 'Audit log', isForAuditors: true, draw: () => <AuditSection /> },
  { id: 'health', title: 'Health', isOfService: true, draw: () => <HealthSection /> },
  { id: 'queue', title: 'Queue', isOfService: true, draw: () => <QueueSection /> },
  { id: 'dead-letters', title: 'Dead letters', isOfService: true, draw: () => <DeadLettersSection /> },
  { id: 'backups', title: 'Backups', isOfService: true, draw: () => <BackupsSection /> },
]

/** What admins look after: their organization and, for those of the first one, the service itself. */
export function AdminPage() {
  const { section = 'users' } = useParams({ strict: false }) as { section?: string }
  const { data: reader } = useQuery(session)
  if (!reader) return <LoadingPlace />
  const sections = allSections.filter((it) => reader.isAdmin || (reader.isAuditor && it.isForAuditors))
  if (sections.length === 0) {
    return (
      <>
        <title>Administration · svc</title>
        <h1 className="visually-hidden">Administration</h1>
        <EmptyPlace title="For admins only" action={<Link to="/">All projects</Link>}>
          These pages are for the admins of {reader.organizationName}. One of them can make you an admin or an auditor,
          too.
        </EmptyPlace>
      </>
    )
  }
  const current = sections.find((it) => it.id === section)
  const isWithheld = current?.isOfService === true && !reader.isOperator
  const link = ({ id, title }: Section) => (
    <Link
      key={id}
      to="/-/admin/$section"
      params={{ section: id }}
      className={styles.link}
      aria-current={id === current?.id ? 'page' : undefined}
    >
      {title}
    </Link>
  )
  return (
    <div className={styles.page}>
      <title>{`${current?.title ?? 'Administration'} · svc`}</title>
      <nav aria-label="Administration" className={styles.nav}>
        <h2>{reader.organizationName}</h2>
        {sections.filter((it) => !it.isOfService).map(link)}
        {reader.isOperator && <h2>Service</h2>}
        {reader.isOperator && sections.filter((it) => it.isOfService).map(link)}
        <p className={styles.version}>svc {reader.version}</p>
      </nav>
      <section className={styles.section} aria-labelledby="section">
        <h1 id="section">{current?.title ?? 'Administration'}</h1>
        {current === undefined ? (
          <EmptyPlace title="There is no such page">The parts of the administration are listed beside it.</EmptyPlace>
        ) : isWithheld ? (
          <EmptyPlace title="For those who look after the service">
            This is about the whole service, and may hold data of any organization. It is for the admins of the
            organization “default”.
          </EmptyPlace>
        ) : (
          current.draw(reader)
        )}
      </section>
    </div>
  )
}
