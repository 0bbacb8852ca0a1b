import { createClosers } from '../../runtime/closers.ts'
import { describeError } from '../../runtime/describe-error.ts'
import { makeBackup } from '../../store/backup/backup.ts'
import { listBackups, type Manifest, readManifest } from '../../store/backup/manifest.ts'
import { pruneBackups } from '../../store/backup/prune.ts'
import { type Damage, verifyBackup } from '../../store/backup/verify.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { deleteFinishedBackups, describePlace, insertFinishedBackup } from '../../store/postgres/finished-backups.ts'
import { parseSettings, type Settings } from '../settings.ts'
import { createSteps } from '../terminal/steps.ts'
import { describeTerminal } from '../terminal/terminal.ts'
import { version } from '../version.ts'
import { explainBackupError } from './error.ts'
import { openPlace, reachStores } from './place.ts'

const usage = 'Usage: svc backup [list | verify [ID] | prune --keep N] [--to PLACE] [--keep N] [--json]'

type Options = { place: string | undefined; keep: string | undefined; json: boolean }
type Parts = { settings: Settings; json: boolean; keep: number | undefined; id: string | undefined }
type Place = { url: string; target: ObjectStore }

/**
 * Makes, lists, verifies or prunes backups.
 *
 * @throws Error with the usage for wrong arguments, or with the reason and what to do
 */
export async function backup([action = 'make', id, ...more]: string[], options: Options): Promise<void> {
  const act = Object.hasOwn(actions, action) ? actions[action as keyof typeof actions] : undefined
  if (!act || more.length > 0 || (id !== undefined && act !== verify)) throw new Error(usage)
  const keep = options.keep === undefined ? undefined : Number(options.keep)
  if (keep !== undefined && !(Number.isInteger(keep) && keep >= 1)) throw new Error('--keep must be 1 or more.')
  const settings = parseSettings(process.env)
  const closers = createClosers()
  try {
    const place = await openPlace(options.place, settings, closers)
    await act(place, { settings, json: options.json, keep, id }, closers)
  } catch (error) {
    throw explainBackupError(error)
  } finally {
    await closers.closeAll().catch(() => undefined)
  }
}

const actions = { make, list, verify, prune }

async function make(
  { url, target }: Place,
  { settings, json, keep }: Parts,
  closers: ReturnType<typeof createClosers>,
): Promise<void> {
  const step = createSteps(process.stdout, describeTerminal(process.stdout, process.env), { json })
  const reach = { place: { url }, mayRun: true, progress: step, closers }
  const { stores, route } = await reachStores(settings, reach)
  const manifest = await makeBackup({ stores, target, targetUrl: url, route, version, step })
  const pruned = keep === undefined ? undefined : await pruneBackups(target, keep)
  const noteFailure = await note(stores.postgresUrl, url, manifest, pruned?.deleted ?? [])
  if (json) return print(JSON.stringify({ ...summarize(manifest), deleted: pruned?.deleted ?? [] }))
  print(`Backup ${manifest.id}: ${describe(manifest)}.`)
  if (manifest.masterKey !== null)
    print('The backup does not contain the master key. Keep it elsewhere: without it the secrets are lost.')
  if (manifest.objects.missing.length > 0) {
    print(`Missing in the object store, and so in the backup: ${manifest.objects.missing.join(', ')}`)
  }
  if (noteFailure) print(`The backup is complete, but the service does not know of it: ${noteFailure}`)
  reportPruned(pruned)
}

/** Tells the service of the backup, for its administration page; resolves with the reason when it could not. */
async function note(postgresUrl: string, url: string, manifest: Manifest, deleted: string[]) {
  const database = openDatabase({ url: postgresUrl, connectionsMax: 1, onError: () => undefined })
  const { id, startedAt, finishedAt, bytes, version } = summarize(manifest)
  try {
    await insertFinishedBackup(database, {
      id,
      place: describePlace(url),
      startedAt: new Date(startedAt),
      finishedAt: new Date(finishedAt),
      bytes,
      version,
    })
    await deleteFinishedBackups(database, deleted)
    return undefined
  } catch (error) {
    return describeError(error)
  } finally {
    await database.close()
  }
}

async function list({ target }: Place, { json }: Parts): Promise<void> {
  const found = await listBackups(target)
  const whole: ReturnType<typeof summarize>[] = []
  const unfinished: string[] = []
  for (const { id, isComplete } of found) {
    if (isComplete) whole.push(summarize(await readManifest(target, id)))
    else unfinished.push(id)
  }
  if (json) return print(JSON.stringify({ backups: whole, unfinished }))
  if (whole.length === 0) print('There are no complete backups here.')
  const { paint } = describeTerminal(process.stdout, process.env)
  for (const it of whole) {
    print(`${paint('bold', it.id)}  ${toMegabytes(it.bytes)} MB  ${paint('dim', `by svc ${it.version}`)}`)
  }
  if (unfinished.length > 0) print(`Interrupted or in progress, cannot be restored: ${unfinished.join(', ')}`)
}

async function verify({ target }: Place, { json, id = 'latest' }: Parts): Promise<void> {
  const manifest = await readManifest(target, id)
  const step = createSteps(process.stdout, describeTerminal(process.stdout, process.env), { json })
  const damages = await step('checking', (say) =>
    verifyBackup(target, manifest, (bytes) => say(`${toMegabytes(bytes)} MB`)),
  )
  if (json) print(JSON.stringify({ id: manifest.id, ok: damages.length === 0, damages }))
  if (damages.length > 0) {
    if (json) process.exitCode = 1
    else throw new Error(describeDamage(manifest.id, damages))
  } else if (!json) print(`Backup ${manifest.id} is undamaged.`)
}

async function prune({ target }: Place, { json, keep }: Parts): Promise<void> {
  if (keep === undefined) throw new Error('--keep N is missing: how many backups to keep.')
  const pruned = await pruneBackups(target, keep)
  if (json) return print(JSON.stringify(pruned))
  if (pruned.deleted.length === 0) print('There is nothing to delete.')
  reportPruned(pruned)
}

function reportPruned(pruned: Awaited<ReturnType<typeof pruneBackups>> | undefined) {
  if (!pruned || pruned.deleted.length === 0) return
  print(`Deleted: ${pruned.deleted.join(', ')}`)
  if (pruned.onDisks.length > 0) {
    print(
      `Their parts on the disks of ClickHouse remain; only ClickHouse can delete them: ${pruned.onDisks.join(', ')}`,
    )
  }
}

export function describeDamage(id: string, damages: Damage[]): string {
  const shown = damages.slice(0, 10).map(({ file, what }) => `${file} ${what}`)
  const more = damages.length > shown.length ? ` and ${damages.length - shown.length} more` : ''
  return `Backup ${id} is damaged: ${shown.join('; ')}${more}.`
}

function summarize({
  id,
  startedAt,
  finishedAt,
  version,
  masterKey,
  postgres,
  clickhouse,
  queue,
  objects,
  files,
}: Manifest) {
  return {
    id,
    startedAt,
    finishedAt,
    version,
    hasSecrets: masterKey !== null,
    bytes: files.reduce((sum, it) => sum + it.bytes, objects.bytes),
    postgresRows: postgres.tables.reduce((sum, it) => sum + it.rows, 0),
    clickhouseRows: clickhouse.rows,
    clickhousePlace: clickhouse.place.kind,
    queuedBlocks: queue.reduce((sum, it) => sum + it.blocks, 0),
    objects: objects.count,
    missingObjects: objects.missing,
  }
}

function describe(manifest: Manifest): string {
  const it = summarize(manifest)
  return (
    `${toMegabytes(it.bytes)} MB, ${it.postgresRows} rows of Postgres, ${it.clickhouseRows} of ClickHouse, ` +
    `${it.queuedBlocks} queued blocks, ${it.objects} objects`
  )
}

const toMegabytes = (bytes: number) => (bytes / 1e6).toFixed(1)

function print(line: string) {
  process.stdout.write(`${line}\n`)
}
