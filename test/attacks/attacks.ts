import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { pino } from 'pino'
import type { StoreUrls } from '../../cli/settings.ts'
import type { Closers } from '../../runtime/closers.ts'
import { openEmbeddedClickHouse } from '../../store/embedded/clickhouse.ts'
import { openEmbeddedPostgres } from '../../store/embedded/postgres.ts'
import { readNumber } from '../kit/command-line/options.ts'
import { runTool } from '../kit/command-line/run-tool.ts'
import { openFolder } from '../kit/folder.ts'
import { renderReport } from './report.ts'
import { runAttacks } from './run.ts'

/** `npm run attacks`: tries what attackers use against a service of its own. */
const usage = `Usage: npm run attacks -- [options]

Starts the whole service (svc up on embedded stores, in a temporary folder) and, if there is one, nginx in front of it, on this
machine only, and tries attacks of every class against it. Exits with 1 when one does not hold.

  --class TEXT   only classes whose name contains TEXT
  --seconds N    begin no attack after so long (default 300)
  --short        of many attacks alike only some, as the test does
  --json         print the result as JSON
`

await runTool('attacks', async ({ closers }) => {
  const { values } = parseArgs({
    options: {
      class: { type: 'string', default: '' },
      seconds: { type: 'string', default: '300' },
      short: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) {
    process.stdout.write(usage)
    return 0
  }
  const stores = await openStores(closers)
  const secondsMax = readNumber('seconds', values.seconds, 1)
  const report = await runAttacks({ only: values.class, secondsMax, isShort: values.short, stores, closers })
  process.stdout.write(values.json ? `${JSON.stringify(report, null, 2)}\n` : renderReport(report))
  return report.violations.length > 0 ? 1 : 0
})

async function openStores(closers: Closers): Promise<StoreUrls> {
  const folder = await openFolder(closers)
  const log = pino({ level: 'error' }, pino.destination(2))
  const postgres = await openEmbeddedPostgres({ folder: path.join(folder, 'postgres'), log })
  closers.push(() => postgres.close())
  const clickhouse = await openEmbeddedClickHouse({ folder: path.join(folder, 'clickhouse'), log })
  closers.push(() => clickhouse.close())
  const objectsUrl = pathToFileURL(path.join(folder, 'objects')).href
  return { postgresUrl: postgres.url, clickhouseUrl: clickhouse.url, redisUrl: undefined, objectsUrl }
}
