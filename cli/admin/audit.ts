import { createReadStream, createWriteStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { z } from 'zod'
import { type ChainedEntry, checkChain, readChain } from '../../store/postgres/accounts/audit-chain.ts'
import { listOrganizations } from '../../store/postgres/accounts/users.ts'
import type { Database } from '../../store/postgres/database.ts'
import { parsePostgresSettings } from '../settings.ts'
import { withDatabase } from './with-database.ts'

const usage =
  'Usage: svc audit verify [FILE] [--against FILE] [--organization NAME] [--json]\n' +
  '       svc audit export [--out FILE] [--organization NAME]'

type Options = {
  organization: string | undefined
  against: string | undefined
  out: string | undefined
  json: boolean
}

/** The answer of a check, as `--json` prints it. */
type Verdict = Awaited<ReturnType<typeof checkChain>> & { organization: string }

/**
 * Checks or exports the chain of the audit log. It reads Postgres itself: nobody needs to trust the service. The exit code of
 * `verify` is 1 when an entry was altered, removed, added or moved.
 *
 * @throws Error with the usage for wrong arguments, or with the reason and what to do
 */
export async function audit([action, file, ...more]: string[], options: Options): Promise<void> {
  if (action === 'export' && file === undefined) return await exportChain(options)
  if (action !== 'verify' || more.length > 0 || options.out !== undefined) throw new Error(usage)
  if (file !== undefined && options.against !== undefined) throw new Error(usage)
  const verdicts = file === undefined ? await verifyStored(options) : [await verifyFile(file)]
  print(options.json ? JSON.stringify(verdicts) : verdicts.map(render).join('\n'))
  if (verdicts.some((it) => it.faults.length > 0)) process.exitCode = 1
}

async function exportChain({ organization = 'default', out, against, json }: Options) {
  if (against !== undefined || json) throw new Error(usage)
  await withDatabase(parsePostgresSettings(process.env).postgresUrl, async (database) => {
    const [{ organizationId }] = await choose(database, (it) => it.name === organization, `"${organization}"`)
    await readChain(database, organizationId, async (entries) => {
      const target = out === undefined ? process.stdout : createWriteStream(out, { flags: 'wx' })
      const lines = Readable.from(toLines(entries), { objectMode: false })
      await pipeline(lines, target, { end: out !== undefined })
    })
  })
}

async function* toLines(entries: AsyncIterable<ChainedEntry>) {
  for await (const entry of entries) yield `${JSON.stringify(entry)}\n`
}

async function verifyFile(file: string): Promise<Verdict> {
  return { organization: await readOrganizationId(file), ...(await checkChain(readEntries(file), undefined)) }
}

async function verifyStored({ organization, against }: Options): Promise<Verdict[]> {
  const earlier = against === undefined ? undefined : { file: against, ...(await checkEarlier(against)) }
  return await withDatabase(parsePostgresSettings(process.env).postgresUrl, async (database) => {
    const chosen = earlier
      ? await choose(database, (it) => it.organizationId === earlier.organizationId, earlier.organizationId)
      : await choose(database, (it) => organization === undefined || it.name === organization, `"${organization}"`)
    const verdicts: Verdict[] = []
    for (const { organizationId, name } of chosen) {
      const checked = await readChain(database, organizationId, async (entries, ends) => {
        const known = earlier && { ...earlier.last, hash: earlier.last.hash as string | undefined }
        let found = known?.position === ends.anchor.position ? ends.anchor.hash : undefined
        const watched = watch(entries, ({ position, hash }) => {
          if (position === known?.position) found = hash
        })
        const checked = await checkChain(watched, ends)
        if (!known) return checked
        if (known.position < ends.anchor.position) {
          throw new Error(`${against}: all of its entries have expired; compare with a later export.`)
        }
        if (found === known.hash) return checked
        const reason =
          found === undefined ? `${against} has this entry, and the log has not` : `${against} has another entry here`
        return { ...checked, faults: [...checked.faults, { position: known.position, reason }] }
      })
      verdicts.push({ organization: name, ...checked })
    }
    return verdicts
  })
}

/** The end of an earlier export, which must be whole itself. */
async function checkEarlier(file: string) {
  const { last, faults } = await checkChain(readEntries(file), undefined)
  const [fault] = faults
  if (fault) throw new Error(`${file}: entry ${fault.position}: ${fault.reason}.`)
  if (!last) throw new Error(`${file} has no entries.`)
  return { last, organizationId: await readOrganizationId(file) }
}

const exported = z.object({
  organizationId: z.uuid(),
  position: z.int().min(1),
  at: z.string(),
  userName: z.string(),
  act: z.string(),
  subject: z.string(),
  details: z.string(),
  previousHash: z.hex().length(64),
  hash: z.hex().length(64),
})

async function* readEntries(file: string): AsyncGenerator<ChainedEntry> {
  const input = createReadStream(file)
  // Or else an error of the file would be nobody's while no line is awaited.
  const failed = new Promise<never>((_, reject) => input.once('error', reject))
  failed.catch(() => undefined)
  const lines = createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })[Symbol.asyncIterator]()
  for (let number = 1; ; number++) {
    const line = await Promise.race([lines.next(), failed])
    if (line.done) break
    yield parseEntry(line.value, `${file}, line ${number}`)
  }
  if (input.errored) throw input.errored
}

function parseEntry(line: string, place: string): ChainedEntry {
  try {
    return exported.parse(JSON.parse(line))
  } catch (error) {
    const issue = error instanceof z.ZodError ? error.issues[0] : undefined
    throw new Error(`${place}: ${issue ? `${issue.path.join('.')}: ${issue.message}` : 'not JSON'}.`)
  }
}

async function readOrganizationId(file: string): Promise<string> {
  for await (const { organizationId } of readEntries(file)) return organizationId
  throw new Error(`${file} has no entries.`)
}

async function* watch<T>(items: AsyncIterable<T>, see: (item: T) => void) {
  for await (const item of items) {
    see(item)
    yield item
  }
}

type Organization = Awaited<ReturnType<typeof listOrganizations>>[number]

async function choose(database: Database, isWanted: (it: Organization) => boolean, called: string) {
  const [first, ...others] = (await listOrganizations(database)).filter(isWanted)
  if (!first) throw new Error(`There is no organization ${called}. Choose one with --organization.`)
  return [first, ...others] as const
}

function render({ organization, entries, first, last, faults }: Verdict): string {
  if (faults.length > 0) {
    const lines = faults.map(({ position, reason }) => `  entry ${position}: ${reason}`)
    return [`${organization}: the audit log is not what was written`, ...lines].join('\n')
  }
  if (!first || !last) return `${organization}: there are no entries.`
  const range = entries === 1 ? `entry ${first.position}` : `entries ${first.position} to ${last.position}`
  return `${organization}: ${range} follow each other; the last hash is ${last.hash}`
}

function print(text: string) {
  process.stdout.write(`${text}\n`)
}
