import { useMatches, useParams } from '@tanstack/react-router'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import styles from './shell.module.css'

type Section = { label: string; path: string }

/** What a workspace consists of, in the order of the bar. Paths follow that of the workspace. */
const ofWorkspace: Section[] = [
  { label: 'Projects', path: '' },
  { label: 'Artifacts', path: '/-/artifacts' },
  { label: 'Models', path: '/-/models' },
  { label: 'Production', path: '/-/production' },
]

/** What a project consists of. Paths follow that of the project. */
const ofProject: Section[] = [
  { label: 'Runs', path: '' },
  { label: 'Dashboards', path: '/-/dashboards' },
  { label: 'Alerts', path: '/-/alerts' },
  { label: 'Notes', path: '/-/notes' },
]

/** The parts of the workspace or project that the page belongs to; the part of the page is marked. */
export function Sections() {
  const { workspace, project } = useParams({ strict: false }) as { workspace?: string; project?: string }
  const routeId = useMatches({ select: (matches) => matches.at(-1)?.routeId as string })
  if (workspace === undefined) return null
  const sections = project === undefined ? ofWorkspace : ofProject
  if (sections.length < 2) return null
  const root = project === undefined ? toPagePath(workspace) : toPagePath(workspace, project)
  const rest = routeId.slice((project === undefined ? '/$workspace' : '/$workspace/$project').length)
  // Other pages, such as those of a run, belong to the first part.
  const current = sections.findLast(({ path }) => path === '' || rest === path || rest.startsWith(`${path}/`))
  return (
    <nav
      aria-label={project === undefined ? 'Parts of the workspace' : 'Parts of the project'}
      className={styles.parts}
    >
      {sections.map((it) => (
        <PageLink key={it.label} path={root + it.path} aria-current={it === current ? 'page' : undefined}>
          {it.label}
        </PageLink>
      ))}
    </nav>
  )
}
