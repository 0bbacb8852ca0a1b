import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { administer } from '../store/postgres/accounts/audit.ts'
import { openDatabase } from '../store/postgres/database.ts'
import { readWholeNumber } from '../test/kit/command-line/options.ts'
import { runCommand, say } from './command.ts'
import { openBenchStores } from './contenders/stores.ts'
import { startSystem } from './contenders/system.ts'
import { median, renderTable, spread } from './report/report.ts'
import { describeMachine, keepResults } from './report/results.ts'

/**
 * `npm run bench:audit`: measures pages of a long audit log over HTTP, by each filter and by those that match little together,
 * and how long an entry takes to write, by one writer and by several at once. The entries are made inside Postgres. It fails
 * when a page takes longer than its target.
 */
const usage = `Usage: npm run bench:audit -- [options]

  --entries N    entries of the audit log (default 1000000)
  --rounds N     times that each page is asked (default 9)
  --folder PATH  keep the stores there, and use them again
  --json         print the results as JSON
`

const pageMsMax = 200
const pageSize = 100
const day = 86_400_000
/** A statement may take 15 s. */
const filledAtOnce = 500
const appended = 400
const writersMax = 4
const firstAt = Date.UTC(2025, 0, 1)

/**
 * Of ten entries, four are sessions of one program and two are limits that people set in 200 workspaces; one in a thousand is a
 * dead letter. A year of them.
 */
const fill = `INSERT INTO audit_log (organization_id, actor, act, subject, details, at)
  SELECT o.id,
    CASE WHEN n % 10 < 4 THEN 'pipeline' ELSE 'person-' || n % 97 END,
    CASE WHEN n % 1000 = 5 THEN 'dead-letter.discarded' WHEN n % 10 < 4 THEN 'session.opened'
      WHEN n % 10 < 6 THEN 'limits.set' WHEN n % 10 = 6 THEN 'workspace-member.set' ELSE 'key.created' END,
    'subject-' || n % 1009,
    CASE WHEN n % 10 IN (4, 5, 6) THEN jsonb_build_object('workspaceName', 'team-' || n % 199) ELSE '{}' END,
    to_timestamp($3::float8 + n * 31536000.0 / $2)
  FROM organizations o, generate_series($1::int, $2::int) n WHERE o.name = 'default'`

type Page = { about: string; query: Record<string, string> }

const pages: Page[] = [
  { about: 'the newest', query: {} },
  { about: 'of one program, which did much', query: { userName: 'pipeline' } },
  { about: 'of one person', query: { userName: 'person-13' } },
  { about: 'of nobody', query: { userName: 'person-1000' } },
  { about: 'of an act that is common', query: { act: 'session.opened' } },
  { about: 'of an act that is rare', query: { act: 'dead-letter.discarded' } },
  { about: 'of a workspace', query: { workspaceName: 'team-7' } },
  { about: 'of one day', query: { from: String(firstAt + 100 * day), to: String(firstAt + 101 * day) } },
  {
    about: 'by somebody, an act, a workspace',
    query: { userName: 'person-13', act: 'limits.set', workspaceName: 'team-7' },
  },
  { about: 'an act of somebody who never does it', query: { userName: 'pipeline', act: 'limits.set' } },
  { about: 'an act that is not about the workspace', query: { act: 'session.opened', workspaceName: 'team-7' } },
]

await runCommand(async (closers) => {
  const { values } = parseArgs({
    options: {
      entries: { type: 'string', default: '1000000' },
      rounds: { type: 'string', default: '9' },
      folder: { type: 'string' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const entries = readWholeNumber('entries', values.entries, 1)
  const rounds = readWholeNumber('rounds', values.rounds, 1)
  say('Starting the stores')
  const stores = await openBenchStores(closers, 'everysec', values.folder)
  const system = await startSystem({
    target: 'rawInserts',
    queue: 'postgres',
    stores,
    closers,
    profileFolder: undefined,
  })
  const postgres = openDatabase({ url: stores.urls.postgresUrl, connectionsMax: writersMax, onError: () => undefined })
  closers.push(() => postgres.close())
  const { n = 0 } = (await postgres.row<{ n: number }>('SELECT count(*)::int AS n FROM audit_log')) ?? {}
  const part = fill.replace('$2::int)', '$4::int)')
  const filledFrom = performance.now()
  for (let from = n; from < entries; from += filledAtOnce) {
    if (from % 100_000 === 0) say(`Making the entries: ${from} of ${entries}`)
    await postgres.rows(part, [from + 1, entries, firstAt / 1_000, Math.min(from + filledAtOnce, entries)])
  }
  if (n < entries)
    say(
      `${Math.round(((performance.now() - filledFrom) / (entries - n)) * 1_000)} us an entry, ${filledAtOnce} at once`,
    )
  await postgres.rows('VACUUM ANALYZE audit_log')

  const ask = async (query: Record<string, string>) => {
    const search = new URLSearchParams({ ...query, pageSize: String(pageSize) })
    const startedAt = performance.now()
    const answer = await fetch(`${system.readUrl}/api/rest/v2/admin/audit?${search}`, {
      headers: { authorization: stores.apiKey },
    })
    const text = await answer.text()
    if (answer.status !== 200) throw new Error(`/admin/audit answered ${answer.status}: ${text}`)
    const { entries: found, nextPage } = JSON.parse(text) as { entries: unknown[]; nextPage: string | null }
    return { tookMs: performance.now() - startedAt, found: found.length, nextPage }
  }
  const results: { about: string; found: number; tookMs: number[] }[] = []
  const measure = async ({ about, query }: Page) => {
    const { found } = await ask(query)
    const tookMs: number[] = []
    for (let round = 0; round < rounds; round++) tookMs.push((await ask(query)).tookMs)
    results.push({ about, found, tookMs })
    say(`${about}: ${Math.round(median(tookMs))} ms`)
  }
  for (const page of pages) {
    await measure(page)
    const { nextPage } = await ask(page.query)
    if (nextPage !== null) await measure({ about: `${page.about}, the next`, query: { ...page.query, page: nextPage } })
  }
  const middle = await postgres.row<{ id: bigint }>('SELECT id FROM audit_log ORDER BY id LIMIT 1 OFFSET $1', [
    Math.floor(entries / 2),
  ])
  const page = String((middle as { id: bigint }).id)
  await measure({ about: 'in the middle of all', query: { page } })
  await measure({ about: 'of one person, from the middle of all', query: { userName: 'person-13', page } })

  const { id: organizationId } = (await postgres.row<{ id: string }>(
    "SELECT id FROM organizations WHERE name = 'default'",
  )) as { id: string }
  const append = async () => {
    const startedAt = performance.now()
    await administer(postgres, { organizationId, userName: 'bench' }, (_, note) => note('limits.set', 'subject'))
    return performance.now() - startedAt
  }
  const appends: { writers: number; tookMs: number[]; perSecond: number }[] = []
  for (const writers of [1, writersMax]) {
    const tookMs: number[] = []
    const startedAt = performance.now()
    const write = async () => {
      for (let left = appended / writers; left > 0; left--) tookMs.push(await append())
    }
    await Promise.all(Array.from({ length: writers }, write))
    appends.push({ writers, tookMs, perSecond: (appended * 1_000) / (performance.now() - startedAt) })
  }

  const file = await keepResults('audit', { entries, rounds }, { pages: results, appends })
  process.stdout.write(
    values.json
      ? `${JSON.stringify({ pages: results, appends })}\n`
      : `\n${describeMachine()}\n\nPages of ${pageSize} of ${entries.toLocaleString('en')} entries; median (least - greatest)\n\n` +
          `${renderTable(
            [['page', 'found', 'ms'], ...results.map((it) => [it.about, String(it.found), spread(it.tookMs, 1)])],
            describeTerminal(process.stdout, process.env),
            { left: 1 },
          )}\n${appends.map(renderAppends).join('')}`,
  )
  say(`Written to ${file}`)
  const slow = results.filter((it) => median(it.tookMs) > pageMsMax)
  if (slow.length > 0) throw new Error(`Over ${pageMsMax} ms: ${slow.map((it) => it.about).join('; ')}`)
})

function renderAppends({ writers, tookMs, perSecond }: { writers: number; tookMs: number[]; perSecond: number }) {
  const by = writers === 1 ? '1 writer' : `${writers} writers at once`
  return `Written by ${by}: ${Math.round(perSecond)} a second, ${median(tookMs).toFixed(2)} ms each\n`
}
