import type { Queries } from '../database.ts'
import { selectFiles } from './files.ts'

export const fileChanges = ['added', 'removed', 'changed'] as const

type FileChange = (typeof fileChanges)[number]

/** A file as one of two versions has it. Of a remote file only the address is known. */
export type ComparedFile = { assetId: string; size: bigint; sha256: string | null; link: string | null }

export type FileDifference = {
  fileName: string
  change: FileChange
  from: ComparedFile | null
  to: ComparedFile | null
}

export type DifferenceCounts = Record<FileChange | 'unchanged', number>

const fileOf = (side: string) => `CASE WHEN ${side}.id IS NOT NULL THEN json_build_object('assetId', ${side}.id,
  'size', ${side}.size::text, 'sha256', ${side}.sha256, 'link', ${side}.link) END`

/** Of files of one name the one that came last counts. */
const filesOf = (version: string) => `SELECT DISTINCT ON ("fileName") "fileName" AS name, id, size, sha256, link
  FROM (${selectFiles.replaceAll('$1', version)}) f ORDER BY "fileName", place DESC`

const compared = `(SELECT coalesce(f.name, t.name) AS name, CASE WHEN f.id IS NULL THEN 'added' WHEN t.id IS NULL THEN 'removed'
    WHEN (f.sha256, f.link) IS DISTINCT FROM (t.sha256, t.link) THEN 'changed' ELSE 'unchanged' END AS change,
    ${fileOf('f')} AS "from", ${fileOf('t')} AS "to"
  FROM (${filesOf('$1')}) f FULL JOIN (${filesOf('$2')}) t ON t.name = f.name) c`

type Asked = { fromId: string; toId: string; change: FileChange | undefined; skip: number; limit: number }

/** What is different in the files of two versions, by name; and how many files are. A renamed file is a removed and an added one. */
export async function compareArtifactFiles(
  queries: Queries,
  { fromId, toId, change, skip, limit }: Asked,
): Promise<{ differences: FileDifference[]; counts: DifferenceCounts }> {
  type Row = Omit<FileDifference, 'from' | 'to'> & Record<'from' | 'to', (ComparedFile & { size: string }) | null>
  const rows = await queries.rows<Row>(
    `SELECT name AS "fileName", change, "from", "to" FROM ${compared}
     WHERE change <> 'unchanged' AND ($3::text IS NULL OR change = $3) ORDER BY name OFFSET $4 LIMIT $5`,
    [fromId, toId, change ?? null, skip, limit],
  )
  const counted = await queries.rows<{ change: FileChange | 'unchanged'; count: number }>(
    `SELECT change, count(*)::int AS count FROM ${compared} GROUP BY change`,
    [fromId, toId],
  )
  const toFile = (it: (ComparedFile & { size: string }) | null) => it && { ...it, size: BigInt(it.size) }
  const counts: DifferenceCounts = { added: 0, removed: 0, changed: 0, unchanged: 0 }
  for (const it of counted) counts[it.change] = it.count
  return { differences: rows.map((it) => ({ ...it, from: toFile(it.from), to: toFile(it.to) })), counts }
}
