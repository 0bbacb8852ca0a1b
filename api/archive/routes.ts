import { create as toDisposition } from 'content-disposition'
import { z } from 'zod'
import { object, optional, text } from '../../http/body/fields.ts'
import { readUpload } from '../../http/body/upload.ts'
import { HttpError, unavailable } from '../../http/errors.ts'
import { type Route, route } from '../../http/route.ts'
import type { ClickHouse } from '../../store/clickhouse/connection.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import type { Database } from '../../store/postgres/database.ts'
import type { Access } from '../access.ts'
import type { createAssetLimits } from '../assets/limits.ts'
import type { OrphanedObjects } from '../assets/orphaned-objects.ts'
import type { ExportSlots } from '../export/slots.ts'
import type { LivePosition } from '../live/position.ts'
import { projectName, projectQuery } from '../projects/projects.ts'
import { readTables, streamArchive } from './export.ts'
import { readArchive } from './import.ts'
import { createTarget, ImportedBefore } from './target.ts'

const topic = 'Export'

type Deps = {
  database: Database
  clickhouse: ClickHouse
  objects: ObjectStore
  orphanedObjects: OrphanedObjects
  access: Access
  limits: ReturnType<typeof createAssetLimits>
  /** The position until which everything accepted is stored; undefined while the queue is behind. */
  findPosition(): Promise<LivePosition | undefined>
  slots: ExportSlots
}

/** A whole project as one file, and back. */
export function createArchiveRoutes(deps: Deps): Route[] {
  const { database, access, limits, findPosition, slots } = deps
  let isImporting = false

  const exportArchive = route({
    method: 'GET',
    path: '/export/archive',
    permission: 'caller',
    topic,
    summary:
      'Exports a whole project with its assets and artifacts as one tar file, which another server imports. For owners of the ' +
      'workspace, and admins. An export that fails ends the connection: an archive without its SHA256SUMS is cut off.',
    query: object(projectQuery.shape),
    answer: z.string(),
    shape: 'bytes',
    async handle({ query, caller, reply }) {
      const found = await access.project(caller, query)
      const { name: workspaceName } = await access.managedWorkspace(caller, found.workspaceName)
      const signal = await slots.take(caller.userId, reply.raw)
      if (!(await findPosition())) throw unavailable('The service is catching up with what was accepted.', undefined, 5)
      const tables = await readTables(database, found.projectId)
      const fileName = `${workspaceName}-${found.projectName}.tar`.replaceAll(/[/\\]/g, '_')
      reply.headers({ 'content-type': 'application/x-tar', 'content-disposition': toDisposition(fileName) })
      return streamArchive(deps, tables, signal)
    },
  })

  const importArchive = route({
    method: 'POST',
    path: '/write/project/import',
    charge: 'call',
    permission: 'admin',
    topic,
    summary:
      'Imports the archive of a project, as a whole or not at all: every id, time and name in it is kept. A process takes one at ' +
      'a time. An archive that the workspace has imported already changes nothing.',
    query: object({ workspaceName: text(1_000, 1), projectName: optional(projectName) }),
    upload: z.object({ file: z.string().meta({ format: 'binary' }) }),
    answer: z.object({
      projectId: z.string(),
      projectName: z.string(),
      isNew: z.boolean().describe('false when the workspace had imported the archive before'),
      experiments: z.int().optional(),
      unknownUsers: z.array(z.string()).optional().describe('not users here: what was theirs belongs to the caller'),
    }),
    shape: 'envelope',
    async handle({ query: { workspaceName, projectName: newName }, caller, request }) {
      const workspace = await access.managedWorkspace(caller, workspaceName)
      if (isImporting) throw unavailable('This process is importing another archive.', undefined, 10)
      isImporting = true
      const checkRoom = (bytes: number) => limits.checkRoom(workspace, bytes)
      const checkExperiments = (count: number) => access.roomForExperiments({ workspaceId: workspace.id }, count)
      const target = createTarget({ database, caller, workspace, projectName: newName, checkRoom, checkExperiments })
      try {
        const { file } = await readUpload(request.raw, {
          keep: async ({ content }) => {
            await readArchive({ ...deps, limits }, content, target.into)
            return target.imported()
          },
          discard: async () => undefined,
          fileBytesMax: Number.MAX_SAFE_INTEGER,
        })
        if (!file) throw new HttpError('badRequest', 'file: the archive is missing; send it as the body')
        return { ...file, isNew: true }
      } catch (error) {
        await target.giveUp()
        if (error instanceof ImportedBefore) return { ...error.project, isNew: false }
        throw error
      } finally {
        isImporting = false
      }
    },
  })

  return [exportArchive, importArchive]
}
