import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import { object, optional, pageFields, text } from '../../http/body/fields.ts'
import { type Route, route } from '../../http/route.ts'
import { type ComparedFile, compareArtifactFiles, fileChanges } from '../../store/postgres/artifacts/differences.ts'
import type { Queries } from '../../store/postgres/database.ts'
import { toNextPage } from '../assets/media.ts'
import type { ArtifactAccess } from './access.ts'
import { artifactTopic } from './artifacts.ts'

const pageSizeMax = 1_000
const pageSizeDefault = 500

const file = z
  .object({
    assetId: z.string(),
    fileSize: z.int(),
    sha256: z.string().nullable().describe('in hex; null for a remote file'),
    link: z.string().nullable().describe('the address of a remote file'),
  })
  .nullable()

type Deps = { reads: Queries; artifacts: ArtifactAccess }

/** What is different in the files of two versions. */
export function createArtifactDifferenceRoutes({ reads, artifacts }: Deps): Route[] {
  return [
    route({
      method: 'GET',
      path: '/artifacts/version/diff',
      permission: 'caller',
      topic: artifactTopic,
      summary:
        'Compares the files of two versions by name and checksum, a page at a time. Remote files are compared by their ' +
        'addresses; a renamed file is a removed and an added one.',
      query: object({
        fromVersionId: text(500, 1),
        toVersionId: text(500, 1),
        change: optional(z.enum(fileChanges, `must be one of ${fileChanges.join(', ')}`)).describe('only these'),
        ...pageFields(pageSizeMax),
      }),
      answer: z.object({
        added: z.int(),
        removed: z.int(),
        changed: z.int(),
        unchanged: z.int(),
        files: z.array(
          z.object({
            fileName: z.string(),
            change: z.enum(fileChanges),
            from: file.describe('null: added'),
            to: file.describe('null: removed'),
          }),
        ),
        nextPage: z.string().nullable().describe('the `page` to request next; null: this was the last one'),
      }),
      shape: 'plain',
      async handle({ query: { fromVersionId, toVersionId, change, page = '0', pageSize = pageSizeDefault }, caller }) {
        const from = await artifacts.version(caller, { versionId: fromVersionId })
        const to = await artifacts.version(caller, { versionId: toVersionId })
        const skip = Number(page)
        const asked = { fromId: from.version.id, toId: to.version.id, change, skip, limit: pageSize }
        const { differences, counts } = await compareArtifactFiles(reads, asked)
        const total = change ? counts[change] : counts.added + counts.removed + counts.changed
        return {
          ...counts,
          files: differences.map((it) => ({ ...it, from: toFile(it.from), to: toFile(it.to) })),
          nextPage: toNextPage(skip, differences.length, total),
        }
      },
    }),
  ]
}

const toFile = (it: ComparedFile | null) =>
  it && { assetId: it.assetId, fileSize: toJsonInteger(it.size), sha256: it.sha256, link: it.link }
