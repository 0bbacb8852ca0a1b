import { z } from 'zod'
import { toJsonInteger } from '../../http/body/exact-json.ts'
import { object, optional, text } from '../../http/body/fields.ts'
import { HttpError, needsEditor } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { ObjectStore } from '../../store/objects/object-store.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  deletePanel,
  type FoundPanel,
  findPanel,
  insertPanel,
  listPanels,
  type Panel,
  updatePanel,
} from '../../store/postgres/projects/panels.ts'
import { type Access, refuseWithheld } from '../access.ts'
import { workspaceName } from '../accounts/workspaces.ts'
import { sendAsset } from '../assets/download.ts'
import { toFileName } from '../assets/names.ts'
import type { OrphanedObjects } from '../assets/orphaned-objects.ts'
import type { AssetWriter, ReceivedFile } from '../assets/writer.ts'
import { passZip } from '../assets/zip-check.ts'

const topic = 'Workspaces'

const fileBytesMax = 100 * 1024 * 1024
const panelsMax = 1_000

const templateId = text(100, 1)
const teamName = workspaceName.describe('the workspace')

type Deps = {
  database: Database
  objects: ObjectStore
  orphanedObjects: OrphanedObjects
  writer: AssetWriter
  access: Access
}

/** Panels of a workspace: zip files that its members upload and show in their pages. */
export function createPanelRoutes({ database, objects, orphanedObjects, writer, access }: Deps): Route[] {
  async function find(caller: Caller, id: string): Promise<FoundPanel> {
    const panel = await findPanel(database, caller.viewerId, id)
    if (panel) return panel
    await refuseWithheld(database, caller, 'panelId', id)
    throw unknownPanel(id)
  }

  const upload = route({
    method: 'POST',
    path: '/write/template/upload',
    charge: 'call',
    permission: 'caller',
    topic,
    summary:
      'Uploads a panel to a workspace, or replaces one: a zip of up to ' +
      `${fileBytesMax} bytes, as the part \`file\` of a form or as the whole body.`,
    query: object({ teamName, templateId: optional(templateId).describe('the panel to replace') }),
    upload: object({ file: z.file() }),
    answer: z.object({ msg: z.string(), templateId: z.string() }),
    shape: 'envelope',
    async handle({ query, caller, request }) {
      const workspace = await access.writableWorkspace(caller, query.teamName)
      const replacedId = query.templateId
      if (replacedId !== undefined) {
        const replaced = await find(caller, replacedId)
        if (replaced.workspaceId !== workspace.id) throw unknownPanel(replacedId)
      }
      const file = { fileBytesMax, check: passZip }
      return await writer.withUpload(
        request.raw,
        async (receive) => {
          const received = (await receive()).file
          if (!received) throw new HttpError('badRequest', 'file: is missing; send it as this part of the form')
          const content = toContent(received, caller)
          if (replacedId === undefined) {
            const id = await insertPanel(database, workspace.id, content, panelsMax)
            if (id === undefined) throw tooManyPanels(workspace.name)
            return { msg: 'Saved', templateId: id }
          }
          // The panel may have been deleted during the upload.
          if (!(await updatePanel(database, workspace.id, replacedId, content))) throw unknownPanel(replacedId)
          await orphanedObjects.free()
          return { msg: 'Saved', templateId: replacedId }
        },
        file,
      )
    },
  })

  const list = route({
    method: 'GET',
    path: '/templates',
    permission: 'caller',
    topic,
    summary: 'Lists the panels of a workspace, oldest first.',
    query: object({ teamName }),
    answer: z.object({
      templates: z.array(
        z.object({
          templateId: z.string(),
          fileName: z.string(),
          fileSize: z.int().describe('bytes'),
          userName: z.string().describe('who uploaded the present bytes'),
          createdAt: z.int().describe('ms since the Unix epoch'),
          lastUpdated: z.int().describe('ms since the Unix epoch'),
        }),
      ),
    }),
    shape: 'plain',
    async handle({ query, caller }) {
      const workspace = await access.workspace(caller, query.teamName)
      return { templates: (await listPanels(database, workspace.id)).map(toAnswer) }
    },
  })

  const download = route({
    method: 'GET',
    path: '/template/download',
    permission: 'caller',
    topic,
    summary: 'Reads the bytes of a panel, or a range of them. The ETag is their SHA-256.',
    query: object({ templateId }),
    answer: z.file(),
    shape: 'bytes',
    async handle({ query, caller, request, reply }) {
      const panel = await find(caller, query.templateId)
      return await sendAsset({ request, reply }, objects, { ...panel, contentType: 'application/zip', link: null })
    },
  })

  const remove = route({
    method: 'GET',
    path: '/write/template/delete',
    charge: 'call',
    permission: 'caller',
    topic,
    summary: 'Deletes a panel and its bytes.',
    query: object({ templateId }),
    answer: z.object({ msg: z.string() }),
    shape: 'envelope',
    async handle({ query, caller }) {
      const panel = await find(caller, query.templateId)
      if (!panel.isWritable) throw needsEditor('workspaceReadOnly', 'panel', panel.workspaceName)
      if (!(await deletePanel(database, caller.viewerId, panel.id))) throw unknownPanel(panel.id)
      await orphanedObjects.free()
      return { msg: 'Deleted' }
    },
  })

  return [upload, list, download, remove]
}

function toContent(file: ReceivedFile, { userId }: Caller) {
  const fileName = toFileName({ fileName: undefined, extension: 'zip', type: 'panel', sentName: file.fileName })
  return { userId, fileName, size: file.bytes, sha256: file.sha256, objectKey: file.objectKey, nowMs: Date.now() }
}

function toAnswer({ id, fileName, size, userName, createdAtMs, updatedAtMs }: Panel) {
  return {
    templateId: id,
    fileName,
    fileSize: Number(size),
    userName,
    createdAt: toJsonInteger(createdAtMs),
    lastUpdated: toJsonInteger(updatedAtMs),
  }
}

/** The same answer for an absent, a deleted and a foreign panel. */
function unknownPanel(id: string): HttpError {
  return new HttpError('panelUnknown', `There is no panel ${id.slice(0, 60)} that this key may use: see /templates.`)
}

function tooManyPanels(workspace: string): HttpError {
  return new HttpError(
    'panelsFull',
    `The workspace "${workspace}" has reached the limit of ${panelsMax} panels: delete some, or replace one (templateId).`,
  )
}
