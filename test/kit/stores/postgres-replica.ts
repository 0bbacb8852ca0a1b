import { execFileSync } from 'node:child_process'
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import type { Closers } from '../../../runtime/closers.ts'
import { openEmbeddedPostgres } from '../../../store/embedded/postgres.ts'

const log = pino({ level: 'silent' })

/** A primary of its own and a streaming replica of it, real servers both, that nobody else uses. */
export async function openPostgresWithReplica(closers: Closers) {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-replica-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const [primaryFolder, replicaFolder] = [path.join(folder, 'primary'), path.join(folder, 'replica')]

  // Only the files of a server that stopped in order are a whole copy; `cp` keeps their owner and modes.
  const first = await openEmbeddedPostgres({ folder: primaryFolder, log })
  await first.close()
  execFileSync('chmod', ['755', folder])
  execFileSync('cp', ['-a', primaryFolder, replicaFolder])
  const primary = await openEmbeddedPostgres({ folder: primaryFolder, log })
  closers.push(() => primary.close())

  const { hostname, port, username, password } = new URL(primary.url)
  const source = `host=${hostname} port=${port} user=${username} password=${password}`
  const data = path.join(replicaFolder, 'data')
  await writeFile(path.join(data, 'standby.signal'), '')
  await appendFile(path.join(data, 'postgresql.auto.conf'), `primary_conninfo = '${source}'\n`)
  const replica = await openEmbeddedPostgres({ folder: replicaFolder, log })
  closers.push(() => replica.close())
  return { primaryUrl: primary.url, replicaUrl: replica.url, stopReplica: () => replica.close() }
}
