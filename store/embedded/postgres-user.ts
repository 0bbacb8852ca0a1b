/**
 * Postgres refuses to run as root. If we are root (containers), its programs run as the owner of the data, else as the user
 * `postgres`, else as `nobody`.
 *
 * That user may lack access to a folder above its files (/root is closed to others). Then the programs keep one capability to
 * traverse folders: CAP_DAC_READ_SEARCH, or CAP_DAC_OVERRIDE if the container has only that one. They also keep
 * no_setuid_fixup, or access(2), which they call on their own files, would ignore capabilities.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

export type Command = { file: string; args: string[]; uid?: number; gid?: number }

export type PostgresUser = {
  /** Undefined when we are not root. */
  ids: { uid: number; gid: number } | undefined
  toCommand(file: string, args: string[]): Command
}

/** Decides how to run Postgres' programs. Throws an error with advice when they cannot reach their files. */
export function findPostgresUser(deps: { folder: string; dataFolder: string; binary: string }): PostgresUser {
  if (process.getuid?.() !== 0) return { ids: undefined, toCommand: (file, args) => ({ file, args }) }
  const ids = ownerOf(deps.dataFolder) ?? idsOf('postgres') ?? idsOf('nobody')
  if (!ids) throw new Error(`Postgres does not run as root, and there is no user postgres or nobody. ${advice}`)

  const closed = findClosedFolder(deps.folder, ids) ?? findClosedFolder(deps.binary, ids)
  if (!closed) return { ids, toCommand: (file, args) => ({ file, args, ...ids }) }

  for (const capability of ['dac_read_search', 'dac_override']) {
    const toCommand = (file: string, args: string[]) => ({
      file: 'setpriv',
      args: [
        `--reuid=${ids.uid}`,
        `--regid=${ids.gid}`,
        '--clear-groups',
        `--inh-caps=-all,+${capability}`,
        `--ambient-caps=-all,+${capability}`,
        '--securebits=+no_setuid_fixup',
        '--',
        file,
        ...args,
      ],
    })
    const probe = toCommand('/bin/sh', ['-c', 'cd "$1" && exec "$2" --version', 'sh', deps.folder, deps.binary])
    try {
      execFileSync(probe.file, probe.args, { stdio: 'ignore', cwd: '/' })
      return { ids, toCommand }
    } catch {
      // No setpriv, or this container does not have the capability.
    }
  }
  throw new Error(`Postgres does not run as root, and user ${ids.uid} cannot enter the folder ${closed}. ${advice}`)
}

const advice =
  'Run this as an ordinary user, or put SVC_DATA_DIR and the program where every user has access, ' +
  'or set POSTGRES_URL to a Postgres server.'

function ownerOf(folder: string): { uid: number; gid: number } | undefined {
  if (!existsSync(folder)) return undefined
  const { uid, gid } = statSync(folder)
  return uid === 0 ? undefined : { uid, gid }
}

function idsOf(user: string): { uid: number; gid: number } | undefined {
  try {
    const [uid, gid] = ['-u', '-g'].map((option) =>
      Number(execFileSync('id', [option, user], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })),
    )
    return uid && gid ? { uid, gid } : undefined
  } catch {
    return undefined
  }
}

/** The first folder above `path` that the user may not enter, by its mode. */
function findClosedFolder(path: string, { uid, gid }: { uid: number; gid: number }): string | undefined {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const stat = statSync(folder)
    const bit = stat.uid === uid ? 0o100 : stat.gid === gid ? 0o010 : 0o001
    if ((stat.mode & bit) === 0) return folder
    if (folder === dirname(folder)) return undefined
  }
}
