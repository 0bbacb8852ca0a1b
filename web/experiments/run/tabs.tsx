import { Link } from '@tanstack/react-router'
import styles from './run-page.module.css'
import { type Tab, tabs } from './run-search.ts'

/** The parts of a run, each a link, so that each has an address and opens in a new tab. */
export function Tabs({ current }: { current: Tab }) {
  return (
    <nav className={styles.tabs} aria-label="Parts of the run">
      {tabs.map(({ name, label }) => (
        <Link
          key={name}
          from="/$workspace/$project/$key"
          to="."
          search={name === 'overview' ? {} : { tab: name }}
          className={styles.tab}
          activeOptions={{ exact: true }}
          aria-current={name === current ? 'page' : undefined}
        >
          {label}
        </Link>
      ))}
    </nav>
  )
}
