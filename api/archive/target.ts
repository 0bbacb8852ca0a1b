import { HttpError } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import { administer } from '../../store/postgres/accounts/audit.ts'
import {
  beginImport,
  findImported,
  findUserIds,
  finishImport,
  giveUpImport,
  touchImport,
} from '../../store/postgres/archive/imports.ts'
import type { ArchiveRow } from '../../store/postgres/archive/read.ts'
import {
  findTakenArtifact,
  findTakenId,
  findTakenProject,
  insertProject,
  insertRows,
  keepObjects,
} from '../../store/postgres/archive/write.ts'
import { type Database, isUniqueViolation } from '../../store/postgres/database.ts'
import type { ArchiveHead, Import, TableMember } from './import.ts'
import { collectRows } from './members.ts'
import type { RowCheck } from './rows.ts'

type Deps = {
  database: Database
  caller: Caller
  workspace: { id: string; name: string }
  /** Instead of the project's own. */
  projectName: string | undefined
  /** @throws HttpError when the workspace has no room for so many bytes of assets */
  checkRoom(bytes: number): Promise<void>
  checkExperiments(count: number): Promise<void>
}

type Imported = { projectId: string; projectName: string; experiments: number; unknownUsers: string[] }

/** The workspace that an archive goes to. */
export function createTarget({ database, caller, workspace, projectName, checkRoom, checkExperiments }: Deps) {
  let head: ArchiveHead | undefined
  let importId: string | undefined
  let experimentIds: bigint[] = []
  let userIds = new Map<string, string>()
  let unknownUsers: string[] = []

  const project = () => {
    const { project } = head as ArchiveHead
    return { ...project, name: projectName ?? project.name }
  }

  const into: Import = {
    async begin(given) {
      head = given
      const { id, name } = project()
      const imported = await findImported(database, workspace.id, head.id)
      if (imported) throw new ImportedBefore(imported)
      const taken = await findTakenProject(database, workspace.id, { id, name })
      if (taken === 'name') {
        throw new HttpError(
          'projectExists',
          `The workspace "${workspace.name}" has a project "${name}" already: give the copy another name with projectName.`,
        )
      }
      if (taken === 'id') throw exists(`project ${id}`)
    },

    async prepare(members, check) {
      for (const { table, content } of members) {
        const rows = (await collectRows(content)) as ArchiveRow[]
        const taken = await findTakenId(database, table, rows)
        if (taken) throw exists(`${table.name} with ${table.name === 'experiments' ? 'key' : 'id'} ${taken}`)
        if (table.name !== 'artifacts') continue
        const artifact = await findTakenArtifact(
          database,
          workspace.id,
          rows.map((it) => it.name),
        )
        if (artifact !== undefined) throw exists(`artifact "${artifact}" in the workspace "${workspace.name}"`)
      }
      await checkExperiments(check.experiments())
      await checkRoom([...check.objects.values()].reduce((sum, it) => sum + it.bytes, 0))
      await findUsers(check)
      const { id: archiveId } = head as ArchiveHead
      const begun = await beginImport(database, {
        workspaceId: workspace.id,
        archiveId,
        experiments: check.experiments(),
      })
      importId = begun.importId
      experimentIds = begun.experimentIds
      return experimentIds
    },

    async goOn() {
      if (!(await touchImport(database, importId as string))) throw takenOver()
    },

    async commit(members, objectKeys) {
      try {
        await insert(members, objectKeys)
      } catch (error) {
        if (isUniqueViolation(error)) throw exists('part of the project')
        throw error
      }
    },
  }

  async function findUsers({ userNames }: RowCheck) {
    const names = [...new Set([...userNames, project().owner])]
    userIds = await findUserIds(database, caller.organizationId, names)
    unknownUsers = names.filter((it) => !userIds.has(it)).sort()
  }

  async function insert(members: TableMember[], objectKeys: Map<number, string>) {
    const { id: projectId, name } = project()
    const targets = {
      workspaceId: workspace.id,
      projectId,
      experimentIds,
      userId: (it: string) => userIds.get(it) ?? caller.userId,
      objectKey: (it: number) => objectKeys.get(it) as string,
    }
    await administer(database, caller, async (queries, note) => {
      await insertProject(queries, targets, project())
      for (const { table, content } of members) {
        await insertRows(queries, table, (await collectRows(content)) as ArchiveRow[], targets)
      }
      if (!(await keepObjects(queries, [...objectKeys.values()]))) throw takenOver()
      if (!(await finishImport(queries, importId as string, projectId))) throw takenOver()
      await note('project.imported', name, { workspaceName: workspace.name, projectId })
    })
  }

  return {
    into,
    imported: (): Imported => {
      const { id: projectId, name } = project()
      return { projectId, projectName: name, experiments: experimentIds.length, unknownUsers }
    },
    /** Lets a worker sweep what was stored. */
    async giveUp() {
      if (importId !== undefined) await giveUpImport(database, importId)
    },
  }
}

/** The archive is in the workspace already. */
export class ImportedBefore extends Error {
  readonly project: { projectId: string; projectName: string }

  constructor(project: { projectId: string; projectName: string }) {
    super('the archive was imported before')
    this.project = project
  }
}

const exists = (what: string) =>
  new HttpError(
    'projectExists',
    `This server has ${what} already. An archive keeps its ids, so nothing was imported: import it into another server, or ` +
      'delete what is there and wait until it is gone for good.',
  )

const takenOver = () =>
  new HttpError(
    'badRequest',
    'This import was given up, for another one of the same archive has begun. Nothing was imported.',
  )
