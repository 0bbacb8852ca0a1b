import { createClosers } from '../../runtime/closers.ts'
import { readManifest } from '../../store/backup/manifest.ts'
import { restoreBackup } from '../../store/backup/restore.ts'
import { verifyBackup } from '../../store/backup/verify.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import { isPermanent } from '../../store/clickhouse/connection.ts'
import { storeBlocks } from '../../store/clickhouse/points/store-blocks.ts'
import { findMasterKey } from '../../store/embedded/master-key.ts'
import { toFingerprint } from '../../store/postgres/accounts/secrets.ts'
import type { Database } from '../../store/postgres/database.ts'
import { insertDeadLetter } from '../../store/postgres/dead-letters.ts'
import type { Block } from '../../store/queue/queue.ts'
import { type QueueName, queues } from '../../store/queue/queues.ts'
import { storeAroundPoisonRows } from '../../workers/inserts/poison-rows.ts'
import { parseSettings, type Settings } from '../settings.ts'
import { createSteps } from '../terminal/steps.ts'
import { describeTerminal } from '../terminal/terminal.ts'
import { describeDamage } from './backup.ts'
import { explainBackupError } from './error.ts'
import { openPlace, reachStores } from './place.ts'

const usage = 'Usage: svc restore [ID] [--from PLACE] [--replace] [--json]'

type Options = { place: string | undefined; replace: boolean; json: boolean }

/**
 * Restores a backup, by default the newest. It checks the whole backup before it changes anything.
 *
 * @throws Error with the usage for wrong arguments, or with the reason and what to do
 */
export async function restore([id = 'latest', ...more]: string[], { place, replace, json }: Options): Promise<void> {
  if (more.length > 0) throw new Error(usage)
  const settings = parseSettings(process.env)
  const closers = createClosers()
  try {
    const { url, target } = await openPlace(place, settings, closers)
    const manifest = await readManifest(target, id)
    checkMasterKey(settings, manifest.masterKey)
    const step = createSteps(process.stdout, describeTerminal(process.stdout, process.env), { json })
    const damages = await step('checking', (say) =>
      verifyBackup(target, manifest, (bytes) => say(`${(bytes / 1e6).toFixed(1)} MB`)),
    )
    if (damages.length > 0) throw new Error(`${describeDamage(manifest.id, damages)} Nothing was restored.`)
    const isByRows = manifest.clickhouse.place.kind === 'rows'
    const reach = { place: { url, isByRows }, mayRun: false, progress: step, closers }
    const { stores, route } = await reachStores(settings, reach)
    await restoreBackup({ stores, target, route, manifest, replace, storeBlocks: storeQueued, step })
    const text = json
      ? JSON.stringify({ restored: manifest.id, startedAt: manifest.startedAt })
      : `Backup ${manifest.id} is restored, with everything acknowledged until ${manifest.startedAt}. Start the service again.`
    process.stdout.write(`${text}\n`)
  } catch (error) {
    throw explainBackupError(error)
  } finally {
    await closers.closeAll().catch(() => undefined)
  }
}

/** Without this check a wrong key would go unnoticed until the first webhook must be signed. */
function checkMasterKey({ masterKey, previousMasterKey, dataFolder }: Settings, needed: string | null) {
  if (needed === null) return
  const known = [masterKey ?? findMasterKey(dataFolder), previousMasterKey].filter((it) => it !== undefined)
  if (known.some((it) => toFingerprint(it).toString('hex') === needed)) return
  throw new Error(
    known.length === 0
      ? 'The secrets of this backup are encrypted with a master key, which no backup contains. Set SVC_MASTER_KEY, or put ' +
          'the file master-key back into the data folder. Nothing was restored.'
      : 'The secrets of this backup are encrypted with another master key than yours (SVC_MASTER_KEY, or the file master-key ' +
          'in the data folder). Use the key from the time of the backup. Nothing was restored.',
  )
}

/** Inserts blocks as a worker does. */
async function storeQueued(
  name: QueueName,
  blocks: Block[],
  { clickhouse, database }: { clickhouse: ClickHouse; database: Database },
) {
  const insert = (bytes: Buffer[]) => storeBlocks(clickhouse, queues[name].table, bytes)
  try {
    await insert(blocks.map((it) => it.bytes))
  } catch (error) {
    if (!isPermanent(error)) throw error
    for (const block of blocks) {
      await storeAroundPoisonRows(block, error, {
        insert,
        isPermanent,
        quarantine: (poison, reason) => insertDeadLetter(database, { queue: name, ...poison, reason }),
      })
    }
  }
}
