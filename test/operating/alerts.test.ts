import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Role } from '../../cli/service.ts'
import { createClosers } from '../../runtime/closers.ts'
import { openClickHouse } from '../../store/clickhouse/connection.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { insertDeadLetter, listDeadLetters, takeDeadLetter } from '../../store/postgres/dead-letters.ts'
import { aPoint } from '../kit/builders.ts'
import { eventually } from '../kit/eventually.ts'
import { form } from '../kit/form.ts'
import { aFolder, runCommand } from '../kit/processes/svc.ts'
import { openOwnStores, openTestService } from '../kit/service.ts'
import { insertParts } from '../kit/stores/parts.ts'
import { openProxy } from '../kit/stores/proxy.ts'

const closers = createClosers()
const onClose = (close: () => unknown) => closers.push(async () => close())
afterAll(() => closers.closeAll())

const deploy = fileURLToPath(new URL('../../deploy', import.meta.url))
const rules = path.join(deploy, 'helm/svc/files/alerts.yaml')
const dashboard = JSON.parse(readFileSync(path.join(deploy, 'helm/svc/files/dashboard.json'), 'utf8'))
const runbooks = readFileSync(new URL('../../docs/runbooks.md', import.meta.url), 'utf8')

const hasPrometheus = ['prometheus', 'promtool'].every((it) => spawnSync(it, ['--version']).status === 0)
if (!hasPrometheus) console.warn('Alert rules were not tried: there is no prometheus on the PATH (Debian: prometheus).')

/** The rules, but that a lag counts as high after seconds; what they say of a minute is tested by promtool. */
const rulesInSeconds = readFileSync(rules, 'utf8').replace(
  'svc_queue_oldest_seconds) > 60',
  'svc_queue_oldest_seconds) > 5',
)

/** A Prometheus that asks every second, with the rules; `ask` runs a query. */
async function openPrometheus(targets: string[]) {
  const folder = await aFolder(onClose)
  const ruleFile = path.join(folder, 'alerts.yaml')
  await writeFile(ruleFile, rulesInSeconds)
  const port = await findFreePort()
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [ruleFile],
    scrape_configs: [{ job_name: 'svc', static_configs: [{ targets: targets.map((it) => new URL(it).host) }] }],
  }
  const file = path.join(folder, 'prometheus.yml')
  // YAML is a superset of JSON.
  await writeFile(file, JSON.stringify(config))
  const args = [`--config.file=${file}`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=127.0.0.1:${port}`]
  const running = runCommand('prometheus', args, {}, onClose)
  const get = async (address: string) => {
    const answer = await fetch(`http://127.0.0.1:${port}${address}`)
    const { status, data, error } = (await answer.json()) as { status: string; data: unknown; error?: string }
    if (status !== 'success') throw new Error(`${address}: ${error}`)
    return data
  }
  await eventually(async () => {
    if (running.hasEnded()) return
    expect((await fetch(`http://127.0.0.1:${port}/-/ready`)).status).toBe(200)
  }, 120_000)
  if (running.hasEnded()) throw new Error(running.stderr())
  return {
    async ask(query: string) {
      const { result } = (await get(`/api/v1/query?query=${encodeURIComponent(query)}`)) as { result: unknown[] }
      return result
    },
    /** The alerts whose expression is true now, however long. */
    async raised() {
      const { alerts } = (await get('/api/v1/alerts')) as { alerts: { labels: { alertname: string } }[] }
      return [...new Set(alerts.map((it) => it.labels.alertname))].toSorted()
    },
    async rules() {
      const { groups } = (await get('/api/v1/rules')) as { groups: { rules: Rule[] }[] }
      return groups.flatMap((it) => it.rules)
    },
  }
}

type Rule = { name: string; query: string; health: string; annotations: Record<string, string> }

async function openService() {
  const own = await openOwnStores('postgres')
  const proxy = await openProxy(own.clickhouseUrl)
  closers.push(() => proxy.close())
  const stores = { ...own, clickhouseUrl: proxy.url }
  // In this process: on a busy machine three more of them take long to start.
  const start = async (...roles: Role[]) => {
    const running = await openTestService({
      stores,
      roles: new Set(roles),
      settings: { SVC_QUEUE_BLOCKS_MAX: '20' },
      intervals: { storeMetricsMs: 500 },
    })
    closers.push(running.close)
    return running
  }
  const service = await start('ingest', 'api')
  const worker = await start('worker', 'webhook-worker')
  const { client } = service
  const experimentKey = await client.createExperiment()
  const post = (step: number) => client.post('/write/experiment/metric', { experimentKey, ...aPoint({ step }) })
  return {
    stores,
    directClickhouseUrl: own.clickhouseUrl,
    proxy,
    worker,
    client,
    experimentKey,
    post,
    urls: [service.url, worker.url],
  }
}

/** What a panel asks, as Grafana would send it. */
const toQuery = (expression: string) => expression.replaceAll('$__rate_interval', '15s')

type Panel = { title: string; type: string; description?: string; targets?: { expr: string; datasource: unknown }[] }
const panels = (dashboard.panels as Panel[]).filter((it) => it.type !== 'row')

it('each alert has a runbook, and each runbook an alert', () => {
  const alerts = new Set([...readFileSync(rules, 'utf8').matchAll(/alert: (\w+)/g)].map((it) => it[1]))
  const links = [...readFileSync(rules, 'utf8').matchAll(/alert: (\w+)[\s\S]*?runbook_url: (\S+)/g)]
  for (const [, name, url] of links) expect(url).toBe(`docs/runbooks.md#${name?.toLowerCase()}`)
  const chapters = new Set([...runbooks.matchAll(/^## (Svc\w+)$/gm)].map((it) => it[1]))
  expect([...alerts].toSorted()).toEqual([...chapters].toSorted())
})

it('the dashboard can be imported: it asks for a data source, and no two panels overlap', () => {
  expect(dashboard.templating.list.map((it: { type: string }) => it.type)).toEqual(['datasource'])
  const ids = new Set<number>()
  const cells = new Set<string>()
  for (const { id, gridPos } of dashboard.panels) {
    expect(ids.has(id)).toBe(false)
    ids.add(id)
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x++) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y++) {
        expect(cells.has(`${x} ${y}`)).toBe(false)
        expect(x).toBeLessThan(24)
        cells.add(`${x} ${y}`)
      }
    }
  }
  for (const panel of panels) {
    expect(panel.description, panel.title).toBeTruthy()
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the placeholder is Grafana's
    const datasource = { type: 'prometheus', uid: '${datasource}' }
    for (const it of panel.targets ?? []) expect(it.datasource).toEqual(datasource)
  }
})

describe.skipIf(!hasPrometheus)('with a real Prometheus', () => {
  let service: Awaited<ReturnType<typeof openService>>
  let prometheus: Awaited<ReturnType<typeof openPrometheus>>
  beforeAll(async () => {
    service = await openService()
    prometheus = await openPrometheus(service.urls)
  })
  let step = 0

  it('the rules are what it takes, and keep their promises', () => {
    const run = (...args: string[]) => {
      const { status, stdout, stderr } = spawnSync('promtool', args, { encoding: 'utf8' })
      expect(status, stdout + stderr).toBe(0)
    }
    run('check', 'rules', rules)
    run('test', 'rules', path.join(deploy, 'test/alerts.test.yaml'))
  })

  it('every panel and every alert finds its figures in a service that runs', async () => {
    for (const { title, targets = [] } of panels) {
      for (const { expr } of targets) {
        await eventually(
          async () => {
            const found = await prometheus.ask(toQuery(expr))
            if (found.length === 0) expect((await service.post(++step)).status).toBe(200)
            expect(found, `${title}: ${expr}`).not.toEqual([])
          },
          120_000,
          250,
        )
      }
    }

    const all = await prometheus.rules()
    expect(all.length).toBeGreaterThan(10)
    for (const { name, health, query } of all) {
      expect(health, name).toBe('ok')
      for (const figure of query.match(/\b(svc_\w+|up)\b/g) ?? []) {
        expect(await prometheus.ask(figure), `${name}: ${figure}`).not.toEqual([])
      }
    }
    // Nothing is wrong with a service that has just been started, but that the disk of this machine may be nearly full.
    await eventually(async () => expect((await prometheus.raised()).filter((it) => it !== 'SvcDiskFull')).toEqual([]))
  })

  // It takes minutes until Prometheus has seen each come and go.
  it.skipIf(form === 'short')(
    'alerts are raised when something is wrong, as the runbooks say, and end when it is over',
    async () => {
      const database = openDatabase({ url: service.stores.postgresUrl, connectionsMax: 1, onError: () => undefined })
      closers.push(() => database.close())
      const clickhouse = openClickHouse({ url: service.directClickhouseUrl })
      closers.push(() => clickhouse.close())
      await eventually(async () => expect(await prometheus.ask('svc_store_up == 1')).toHaveLength(3))

      // Dead letters, and parts that nobody merges.
      await insertDeadLetter(database, {
        queue: 'metrics',
        rows: 1,
        receivedMs: 1,
        reason: 'x',
        bytes: Buffer.from('x'),
      })
      await clickhouse.command(`SYSTEM STOP MERGES ${clickhouse.database}.points`)
      await insertParts(clickhouse, 510)
      const ofRows = ['SvcDeadLetters', 'SvcPartsMany']
      await eventually(async () => expect(await prometheus.raised()).toEqual(expect.arrayContaining(ofRows)), 60_000)
      for (const { id } of await listDeadLetters(database, 10)) await takeDeadLetter(database, id)
      await clickhouse.command(`SYSTEM START MERGES ${clickhouse.database}.points`)
      await eventually(async () => {
        const raised = await prometheus.raised()
        for (const it of ofRows) expect(raised).not.toContain(it)
      }, 120_000)

      // ClickHouse is away; writes go on until the queue may hold no more.
      service.proxy.cut()
      let refused = 0
      await eventually(
        async () => {
          const { status } = await service.post(++step)
          expect([200, 503]).toContain(status)
          if (status === 503) refused++
          expect(await prometheus.raised()).toEqual(
            expect.arrayContaining(['SvcLagHigh', 'SvcQueueDeep', 'SvcStoreDown', 'SvcWritesRefused']),
          )
        },
        180_000,
        100,
      )
      expect(refused).toBeGreaterThan(0)

      // And back.
      service.proxy.restore()
      await eventually(async () => {
        const raised = await prometheus.raised()
        for (const it of ['SvcLagHigh', 'SvcQueueDeep', 'SvcStoreDown']) expect(raised).not.toContain(it)
      }, 120_000)
      expect((await service.client.readPoints(service.experimentKey, 'loss', step - refused)).length).toBe(
        step - refused,
      )

      await service.worker.close()
      await eventually(async () => expect(await prometheus.raised()).toContain('SvcRoleDown'), 60_000)
    },
  )
})
