import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useLocation, useNavigate, useParams } from '@tanstack/react-router'
import { lazy, Suspense, useEffect, useRef, useState } from 'react'
import { session, signOut } from '../api/accounts.ts'
import { ApiError, baseUrl, isEmbedded, shareCode } from '../api/http.ts'
import { IconButton } from '../kit/button.tsx'
import { BookIcon, MoonIcon, SearchIcon, ShieldIcon, SunIcon, SystemIcon, UserIcon } from '../kit/icons.tsx'
import { Menu, MenuChoice, MenuItem, MenuLabel, MenuLine, MenuLink } from '../kit/menu.tsx'
import { EmptyPlace, ErrorPlace } from '../kit/places.tsx'
import { setTheme, type Theme, useIsDark, useTheme } from '../kit/theme.ts'
import { toastError } from '../kit/toast.tsx'
import { Notifications } from './notifications.tsx'
import { Search } from './search.tsx'
import { Sections } from './sections.tsx'
import styles from './shell.module.css'

/** The frame of every page: the bar with the path, the search and the reader's menu. */
export function Shell() {
  const [isSearching, setSearching] = useState(false)
  useEffect(() => {
    function open(event: KeyboardEvent) {
      if (event.key !== 'k' || !(event.ctrlKey || event.metaKey)) return
      event.preventDefault()
      setSearching(true)
    }
    addEventListener('keydown', open)
    return () => removeEventListener('keydown', open)
  }, [])
  if (isEmbedded) return <Embedded />
  return (
    <div className={styles.shell}>
      <a className={styles.skip} href="#main">
        Skip to the page
      </a>
      <header className={styles.bar}>
        <Link to="/" className={styles.mark} aria-label="svc: all projects">
          <Mark />
        </Link>
        <Path />
        <Sections />
        <button type="button" className={styles.search} onClick={() => setSearching(true)}>
          <SearchIcon size={14} />
          <span>Search</span>
          <kbd>{isApple ? '⌘' : 'Ctrl'} K</kbd>
        </button>
        <Notifications />
        <ReaderMenu />
      </header>
      <main id="main" tabIndex={-1} className={styles.main}>
        <SignedIn />
      </main>
      {isSearching && <Search onClose={() => setSearching(false)} />}
    </div>
  )
}

/** The page alone, with a way out of the frame. */
function Embedded() {
  const { href } = useLocation()
  return (
    <div className={styles.embedded}>
      <main id="main" tabIndex={-1} className={styles.main}>
        <SignedIn />
      </main>
      <a className={styles.out} href={new URL(href.replace(/^\//, ''), baseUrl).href} target="_blank" rel="noopener">
        Open in a tab
      </a>
    </div>
  )
}

const isApple = /Mac|iPhone|iPad/.test(navigator.platform)

const SignIn = lazy(async () => ({ default: (await import('../accounts/sign-in-page.tsx')).SignIn }))

/** The page, once it is known who reads it. Nobody gets the form in its place, and the page when it is filled in. */
function SignedIn() {
  const { data, error, refetch, isPending } = useQuery(session)
  const { pathname } = useLocation()
  const wasSignedIn = useRef(false)
  if (data) wasSignedIn.current = true
  if (error instanceof ApiError) return <ErrorPlace error={error} onRetry={refetch} />
  if (pathname === '/-/sign-in' || shareCode() !== undefined) return <Outlet />
  if (isPending) return null
  if (data) return <Outlet />
  if (isEmbedded) {
    return (
      <EmptyPlace title="Not signed in here">
        Browsers keep a session out of the frames of other sites. Open the page in a tab, or embed it with a share link.
      </EmptyPlace>
    )
  }
  return (
    <Suspense>
      <SignIn reason={wasSignedIn.current ? 'session-ended' : undefined} />
    </Suspense>
  )
}

function Path() {
  const { workspace, project } = useParams({ strict: false }) as { workspace?: string; project?: string }
  if (workspace === undefined) return <nav aria-label="Path" className={styles.path} />
  return (
    <nav aria-label="Path" className={styles.path}>
      <Link to="/$workspace" params={{ workspace }} title={workspace}>
        {workspace}
      </Link>
      {project !== undefined && (
        <>
          <span aria-hidden="true">/</span>
          <Link to="/$workspace/$project" params={{ workspace, project }} title={project}>
            {project}
          </Link>
        </>
      )}
    </nav>
  )
}

const themes: { value: Theme; label: string }[] = [
  { value: 'light', label: 'Light' },
  { value: 'dark', label: 'Dark' },
  { value: 'system', label: 'As the system' },
]

function ReaderMenu() {
  const { data } = useQuery(session)
  const navigate = useNavigate()
  const client = useQueryClient()
  async function leave() {
    try {
      const { signOutUrl } = await signOut()
      // What was read stays in no memory.
      client.clear()
      if (signOutUrl !== null) return location.assign(signOutUrl)
      await navigate({ to: '/-/sign-in', search: { reason: 'signed-out' } })
    } catch (error) {
      toastError(error)
    }
  }
  const theme = useTheme()
  const isDark = useIsDark()
  return (
    <>
      {(data?.isAdmin || data?.isAuditor) && (
        <Link to="/-/admin" className={styles.admin} aria-label="Administration" title="Administration">
          <ShieldIcon />
        </Link>
      )}
      <Menu
        align="end"
        trigger={
          <IconButton label="Theme">
            {theme === 'system' ? <SystemIcon /> : isDark ? <MoonIcon /> : <SunIcon />}
          </IconButton>
        }
      >
        <MenuChoice value={theme} onChange={setTheme} choices={themes} />
      </Menu>
      <Menu
        align="end"
        trigger={
          <IconButton label={data ? `Signed in as ${data.userName}` : 'Menu'}>
            <UserIcon />
          </IconButton>
        }
      >
        {data && (
          <>
            <MenuLabel>{data.userName}</MenuLabel>
            <MenuLine />
            <MenuItem icon={<UserIcon />} onSelect={() => void navigate({ to: '/-/settings' })}>
              Settings
            </MenuItem>
          </>
        )}
        <MenuLink href="reference" icon={<BookIcon />}>
          HTTP reference
        </MenuLink>
        {data?.sessionId && (
          <>
            <MenuLine />
            <MenuItem onSelect={leave}>Sign out</MenuItem>
          </>
        )}
        {data?.signOutUrl && (
          <>
            <MenuLine />
            <MenuLink href={data.signOutUrl}>Sign out</MenuLink>
          </>
        )}
        {data === null && <MenuItem onSelect={() => void navigate({ to: '/-/sign-in' })}>Sign in</MenuItem>}
      </Menu>
    </>
  )
}

/** Two curves that fall: the sign of the service. */
function Mark() {
  return (
    <svg
      aria-hidden="true"
      width="22"
      height="22"
      viewBox="0 0 22 22"
      fill="none"
      strokeWidth="2"
      strokeLinecap="round"
    >
      <path d="M3 4c2 9 6 11 16 12" stroke="var(--accent)" />
      <path d="M3 9c3 6 7 8.5 16 9.5" stroke="var(--text-faint)" />
    </svg>
  )
}
