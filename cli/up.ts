import path from 'node:path'
import { createClosers } from './closers.ts'
import { drainOnSignal } from './drain.ts'
import { openLog } from './log.ts'
import { checkPort } from './port.ts'
import { startService, toUrlHost } from './service.ts'
import { parseSettings, type Settings } from './settings.ts'
import { migrateStores, openStores, type Progress } from './stores.ts'
import { describeTerminal, type Terminal } from './terminal.ts'
import { version } from './version.ts'

/** Runs the whole service in this process, and tells how to use it. */
export async function up(): Promise<void> {
  const startedAt = performance.now()
  const settings = parseSettings(process.env)
  const terminal = describeTerminal(process.stdout, process.env)
  const log = openLog(settings.logLevel ?? 'warn', 'up')
  const progress = createProgress(terminal)
  const closers = createClosers()
  print(`${terminal.paint('bold', `svc ${version}`)}\n`)
  try {
    await checkPort(settings)
    const stores = await openStores(settings, progress, closers, log)
    const { newKey } = await progress('Schema', () => migrateStores(stores, settings.bootstrapApiKey))
    const service = await progress('Service', () =>
      startService(new Set(['ingest', 'worker', 'api']), stores, settings, log),
    )
    closers.push(() => service.close())
    drainOnSignal({ drainMs: settings.drainMs, log }, async () => {
      print('\nStopping: storing what was acknowledged ...\n')
      await closers.closeAll()
      print('Stopped.\n')
    })
    print(describeService(settings, newKey, terminal, performance.now() - startedAt))
  } catch (error) {
    await closers.closeAll().catch(() => undefined)
    throw error
  }
}

function print(text: string) {
  process.stdout.write(text)
}

/** One line for each step: what is being done while it is done, and how long it took. */
function createProgress(terminal: Terminal): Progress {
  const mark = terminal.isUnicode ? '✓' : 'ok'
  return async (what, work) => {
    if (terminal.isTty) print(`  ${terminal.paint('dim', `${what} ...`)}`)
    const startedAt = performance.now()
    const result = await work()
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1)
    print(`${terminal.isTty ? '\r\u001b[K' : ''}  ${terminal.paint('green', mark)} ${what.padEnd(12)} ${seconds} s\n`)
    return result
  }
}

function describeService(settings: Settings, newKey: string | undefined, terminal: Terminal, tookMs: number): string {
  const url = settings.publicUrl ?? `http://${toUrlHost(settings.host)}:${settings.port}`
  const row = (name: string, value: string) => `  ${terminal.paint('dim', name.padEnd(12))} ${value}\n`
  const usesData = !settings.clickhouseUrl || !settings.postgresUrl
  return [
    `\nReady in ${(tookMs / 1000).toFixed(1)} s.\n\n`,
    row('Address', terminal.paint('bold', url)),
    row('Reference', `${url}/reference`),
    usesData ? row('Data', path.resolve(settings.dataFolder)) : '',
    row('API key', describeKey(settings, newKey, terminal)),
    row('Stop', 'Ctrl-C (what was acknowledged is kept)'),
    `\nLog a first point and read it back:\n\n${indent(curlSnippet(url, settings, newKey))}\n`,
    `\nOr from Python:\n\n${indent(pythonSnippet(url))}\n`,
    `\nOr watch a real training run: ${terminal.paint('bold', 'npm run demo')}\n\n`,
  ].join('')
}

function describeKey({ bootstrapApiKey }: Settings, newKey: string | undefined, terminal: Terminal): string {
  if (newKey) return `${terminal.paint('green', newKey)}  (shown this once: keep it)`
  return bootstrapApiKey ? 'as set in SVC_BOOTSTRAP_API_KEY' : 'as printed at the first start'
}

function curlSnippet(url: string, { bootstrapApiKey }: Settings, newKey: string | undefined): string {
  const key = newKey ?? (bootstrapApiKey ? '$SVC_BOOTSTRAP_API_KEY' : '<your API key>')
  const post = (path: string, body: string) =>
    `curl -s -H "Authorization: $SVC_API_KEY" -H "Content-Type: application/json" ${url}/api/rest/v2/write/${path} -d '${body}'`
  return [
    `export SVC_API_KEY="${key}"`,
    `EXPERIMENT=$(${post('experiment/create', '{"workspaceName": "default", "projectName": "first"}')} \\`,
    `  | sed 's/.*"experimentKey":"\\([^"]*\\)".*/\\1/')`,
    `${post('experiment/metric', `{"experimentKey": "'$EXPERIMENT'", "metricName": "loss", "metricValue": 0.25, "step": 1}`)}; sleep 1`,
    `curl -s -H "Authorization: $SVC_API_KEY" "${url}/api/rest/v2/experiment/metrics/get-metric?experimentKey=$EXPERIMENT&metricName=loss"`,
  ].join('\n')
}

function pythonSnippet(url: string): string {
  return `import json, os, time, urllib.request

def call(path, body=None):
    request = urllib.request.Request("${url}/api/rest/v2/" + path)
    request.add_header("Authorization", os.environ["SVC_API_KEY"])
    request.add_header("Content-Type", "application/json")
    data = None if body is None else json.dumps(body).encode()
    return json.load(urllib.request.urlopen(request, data))

key = call("write/experiment/create", {"workspaceName": "default", "projectName": "first"})["experimentKey"]
points = [{"metricName": "loss", "metricValue": 1 / step, "step": step} for step in range(1, 101)]
print(call("write/experiment/metrics/batch", {"experimentKey": key, "metrics": points}))
time.sleep(1)
print(call("experiment/metrics/summary?experimentKey=" + key))`
}

function indent(text: string): string {
  return text.replace(/^(?=.)/gm, '    ')
}
