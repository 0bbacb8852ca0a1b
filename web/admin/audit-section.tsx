import { keepPreviousData, useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useId } from 'react'
import { users } from '../api/accounts.ts'
import { type AuditAsked, type AuditEntry, auditUrl, readAudit } from '../api/admin.ts'
import { Button } from '../kit/button.tsx'
import { Input, Select } from '../kit/field.tsx'
import { DownloadIcon } from '../kit/icons.tsx'
import { Menu, MenuLink } from '../kit/menu.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { SearchField } from '../kit/search-field.tsx'
import { toTime } from '../kit/text.ts'
import styles from './admin.module.css'
import { type AdminSearch, toMidnight } from './admin-search.ts'
import { useAdminSearch } from './use-admin-search.ts'
import { acts, toActWords, toDetails } from './words.ts'
import { WorkspaceSelect } from './workspace-select.tsx'

const pageSize = 100
/** Others act meanwhile. */
const againMs = 10_000

const nothing: AdminSearch = {
  user: undefined,
  act: undefined,
  workspace: undefined,
  from: undefined,
  to: undefined,
}

/** Who did what, when: the newest first, by filters that are in the address. */
export function AuditSection() {
  const { search, change } = useAdminSearch()
  const asked: AuditAsked = {
    userName: search.user,
    act: search.act,
    workspaceName: search.workspace,
    from: toMidnight(search.from),
    to: toMidnight(search.to, 1),
  }
  const isFiltered = Object.values(asked).some((it) => it !== undefined)
  const pages = useInfiniteQuery({
    queryKey: ['admin', 'audit', asked],
    queryFn: ({ pageParam: page, signal }) => readAudit({ ...asked, page, pageSize }, signal),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.nextPage ?? undefined,
    placeholderData: keepPreviousData,
    // Whoever reads far back does not read it all again.
    refetchInterval: ({ state }) => (state.error || (state.data?.pages.length ?? 0) > 1 ? false : againMs),
  })
  const entries = pages.data?.pages.flatMap((it) => it.entries)
  return (
    <>
      <Filters search={search} change={change} isFiltered={isFiltered} asked={asked} />
      {pages.error && !entries ? (
        <ErrorPlace error={pages.error} onRetry={() => pages.refetch()} />
      ) : entries === undefined ? (
        <LoadingPlace />
      ) : entries.length === 0 ? (
        <EmptyPlace
          title={isFiltered ? 'Nothing matches' : 'Nothing has happened yet'}
          action={isFiltered && <Button onClick={() => change(nothing)}>Show everything</Button>}
        >
          {isFiltered
            ? 'No entry of the audit log matches all of these filters.'
            : 'Each change of users, keys, limits, retention, webhooks and secrets is written down here, with who made it.'}
        </EmptyPlace>
      ) : (
        <>
          <Entries entries={entries} />
          {pages.hasNextPage ? (
            <div className={styles.tools}>
              <Button onClick={() => pages.fetchNextPage()} disabled={pages.isFetchingNextPage}>
                Show older entries
              </Button>
            </div>
          ) : (
            <p className={styles.faint}>This is the first entry{isFiltered ? ' that matches' : ''}.</p>
          )}
        </>
      )}
    </>
  )
}

type FiltersProps = {
  search: AdminSearch
  change(it: AdminSearch): void
  isFiltered: boolean
  asked: AuditAsked
}

function Filters({ search, change, isFiltered, asked }: FiltersProps) {
  const actId = useId()
  const fromId = useId()
  const toId = useId()
  const names = (useQuery(users).data ?? []).map((it) => it.userName)
  const listId = useId()
  return (
    <div className={styles.filters} role="search" aria-label="Filters">
      <div className={styles.choice}>
        <span aria-hidden="true">Who</span>
        <SearchField
          label="Who"
          placeholder="Anybody, by name"
          list={listId}
          text={search.user ?? ''}
          onChange={(it) => change({ user: it || undefined })}
        />
        <datalist id={listId}>
          {names.map((it) => (
            <option key={it} value={it} />
          ))}
        </datalist>
      </div>
      <div className={styles.choice}>
        <label htmlFor={actId}>What</label>
        <Select
          id={actId}
          value={search.act ?? ''}
          onChange={(event) => change({ act: event.target.value || undefined })}
        >
          <option value="">Anything</option>
          {acts.map(({ about, acts }) => (
            <optgroup key={about} label={about}>
              {Object.entries(acts).map(([act, words]) => (
                <option key={act} value={act}>
                  {words}
                </option>
              ))}
            </optgroup>
          ))}
        </Select>
      </div>
      <WorkspaceSelect
        value={search.workspace ?? ''}
        any="Any"
        onChange={(it) => change({ workspace: it || undefined })}
      />
      <div className={styles.choice}>
        <label htmlFor={fromId}>From</label>
        <Input
          id={fromId}
          type="date"
          value={search.from ?? ''}
          onChange={(event) => change({ from: event.target.value || undefined })}
        />
      </div>
      <div className={styles.choice}>
        <label htmlFor={toId}>To</label>
        <Input
          id={toId}
          type="date"
          value={search.to ?? ''}
          onChange={(event) => change({ to: event.target.value || undefined })}
        />
      </div>
      <div className={styles.tools}>
        {isFiltered && (
          <Button look="quiet" onClick={() => change(nothing)}>
            Clear
          </Button>
        )}
        <Menu
          align="end"
          trigger={
            <Button>
              <DownloadIcon size={14} /> Download
            </Button>
          }
        >
          {(['csv', 'jsonl', 'parquet'] as const).map((it) => (
            <MenuLink key={it} href={auditUrl(asked, it)}>
              {it === 'csv' ? 'CSV' : it === 'jsonl' ? 'JSON lines' : 'Parquet'}
            </MenuLink>
          ))}
        </Menu>
      </div>
    </div>
  )
}

function Entries({ entries }: { entries: AuditEntry[] }) {
  return (
    <div className={styles.frame}>
      <table className={styles.table} aria-label="Audit log">
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">Who</th>
            <th scope="col">What</th>
            <th scope="col">Of</th>
            <th scope="col">Details</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((it, at) => (
            // biome-ignore lint/suspicious/noArrayIndexKey: entries have no id here, and never change their order
            <tr key={`${it.at} ${at}`}>
              <td className={styles.time}>{toTime(it.at)}</td>
              <td title={it.userName}>{it.userName}</td>
              <td title={it.act}>{toActWords(it.act)}</td>
              <td title={it.subject}>{it.subject}</td>
              <td className={styles.details}>{toDetails(it.details, it.subject)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
