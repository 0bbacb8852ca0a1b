import { expect, it } from 'vitest'
import { freeOrphanedObjects } from '../../../store/postgres/assets/orphaned-objects.ts'
import { openDatabase } from '../../../store/postgres/database.ts'
import { openOwnStores } from '../../kit/service.ts'

it('orphaned objects are deleted in batches, each once, even if there are many', async () => {
  const { postgresUrl } = await openOwnStores('postgres')
  const database = openDatabase({ url: postgresUrl, onError: () => undefined })
  const total = 3_000
  async function freeMany(prefix: string): Promise<string[][]> {
    await database.row(
      `INSERT INTO loose_objects (object_key, free_after) SELECT $1 || place, now() FROM generate_series(1, $2) AS place`,
      [prefix, total],
    )
    const freed: string[][] = []
    while ((await freeOrphanedObjects(database, 100, async (keys) => void freed.push(keys))) > 0);
    return freed
  }
  await freeMany('first')
  // As autovacuum does after a while: Postgres then plans for a table in which there are none.
  await database.row('ANALYZE loose_objects')

  const freed = await freeMany('then')

  expect(freed.map((it) => it.length)).toEqual([...Array.from({ length: total / 100 }, () => 100), 0])
  expect(new Set(freed.flat()).size).toBe(total)
  await database.close()
})
