import { openDatabase } from '../../store/postgres/database.ts'
import type { BenchStores } from '../contenders/stores.ts'

export type BenchExperiments = { keys: string[]; ids: string[] }

const callsAtOnce = 16

/** Creates experiments over HTTP, as trainers do; reads their ids, which HTTP does not show, from Postgres. */
export async function createExperiments(
  readUrl: string,
  stores: BenchStores,
  count: number,
  tenant: Tenant = { apiKey: stores.apiKey, workspaceName: 'default' },
): Promise<BenchExperiments> {
  const keys: string[] = Array.from({ length: count }, () => '')
  const work = keys.keys()
  const createAll = async () => {
    for (const index of work) keys[index] = await createExperiment(readUrl, tenant)
  }
  await Promise.all(Array.from({ length: callsAtOnce }, createAll))
  const database = openDatabase({ url: stores.urls.postgresUrl, connectionsMax: 1, onError: () => undefined })
  const rows = await database.rows<{ key: string; id: bigint }>('SELECT key, id FROM experiments')
  await database.close()
  const ids = new Map(rows.map((it) => [it.key, String(it.id)]))
  return { keys, ids: keys.map((key) => ids.get(key) as string) }
}

type Tenant = { apiKey: string; workspaceName: string }

async function createExperiment(readUrl: string, { apiKey, workspaceName }: Tenant): Promise<string> {
  const answer = await fetch(`${readUrl}/api/rest/v2/write/experiment/create`, {
    method: 'POST',
    headers: { authorization: apiKey, 'content-type': 'application/json' },
    body: JSON.stringify({ workspaceName, projectName: 'bench' }),
  })
  const body = (await answer.json()) as { experimentKey?: string; msg?: string }
  if (!body.experimentKey) throw new Error(`experiment/create answered ${answer.status}: ${body.msg}`)
  return body.experimentKey
}
