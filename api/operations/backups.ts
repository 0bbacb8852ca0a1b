import { z } from 'zod'
import { type Route, route } from '../../http/route.ts'
import type { Database } from '../../store/postgres/database.ts'
import { listFinishedBackups } from '../../store/postgres/finished-backups.ts'

const listedMax = 100

/** Which backups were made. */
export function createBackupRoutes({ database }: { database: Database }): Route[] {
  return [
    route({
      method: 'GET',
      path: '/admin/backups',
      permission: 'operator',
      topic: 'Operations',
      summary:
        `Lists the last ${listedMax} backups that \`svc backup\` has finished, newest first. It notes each when it ends; whether ` +
        'one is still in its place and undamaged, `svc backup verify` tells.',
      answer: z.object({
        backups: z.array(
          z.object({
            backupId: z.string(),
            place: z.string().describe('a folder, or an address without its secrets'),
            startedAt: z.int().describe('ms since the Unix epoch: everything acknowledged before is in the backup'),
            finishedAt: z.int(),
            bytes: z.int(),
            version: z.string().describe('of svc'),
          }),
        ),
      }),
      shape: 'plain',
      async handle() {
        const found = await listFinishedBackups(database, listedMax)
        return {
          backups: found.map(({ id, startedAt, finishedAt, ...it }) => ({
            backupId: id,
            ...it,
            startedAt: startedAt.getTime(),
            finishedAt: finishedAt.getTime(),
          })),
        }
      },
    }),
  ]
}
