import pg from 'pg'

/** Creates a database on a Postgres server, a copy of another one if that is given, and returns its address. */
export async function createDatabase(serverUrl: string, name: string, template = 'template1'): Promise<string> {
  const client = new pg.Client({ connectionString: serverUrl })
  await client.connect()
  try {
    await client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`)
  } finally {
    await client.end()
  }
  return withDatabase(serverUrl, name)
}

/** The address of another database on the same server, of ClickHouse too. */
export function withDatabase(serverUrl: string, name: string): string {
  return Object.assign(new URL(serverUrl), { pathname: `/${name}` }).href
}
