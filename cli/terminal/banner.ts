import path from 'node:path'
import type { Settings } from '../settings.ts'
import type { Terminal } from './terminal.ts'

/** What a person needs to know of a service that has started. */
type Started = {
  settings: Settings
  /** Where this machine reaches it. */
  url: string
  /** The first key, when it was made now: it cannot be shown again. */
  newKey: string | undefined
  tookMs: number
}

/**
 * Where the service is, where its data is, how to stop it, and a first point from the shell and from Python. The
 * snippets stand at the left edge and name the key, so that they work as they are copied.
 */
export function describeStarted({ settings, url, newKey, tookMs }: Started, terminal: Terminal): string {
  const row = (name: string, value: string) => `  ${terminal.paint('dim', name.padEnd(12))} ${value}\n`
  const heading = (text: string) => `\n${terminal.paint('bold', text)}\n\n`
  const hasEmbedded = !settings.clickhouseUrl || !settings.postgresUrl
  return [
    `\nReady in ${(tookMs / 1000).toFixed(1)} s.\n\n`,
    row('Address', terminal.paint('bold', url)),
    settings.publicUrl ? row('Public', settings.publicUrl) : '',
    row('Reference', `${url}/reference`),
    hasEmbedded ? row('Data folder', path.resolve(settings.dataFolder)) : '',
    row('API key', describeKey(settings, newKey, terminal)),
    row('Stop', 'Ctrl-C (what was acknowledged is kept)'),
    heading('Log a first point from the shell and read it back:'),
    curlSnippet(url, settings, newKey),
    heading('Or from Python:'),
    pythonSnippet(url, settings, newKey),
    heading('Or watch a model being trained:'),
    `npm run demo -- --url ${url} --key ${newKey ?? '"$SVC_API_KEY"'}\n\n`,
  ].join('')
}

function describeKey({ bootstrapApiKey }: Settings, newKey: string | undefined, terminal: Terminal): string {
  if (newKey) return `${terminal.paint('green', newKey)}  (shown only once: keep it)`
  return bootstrapApiKey
    ? 'as set in SVC_BOOTSTRAP_API_KEY'
    : 'as printed at the first start (lost? SVC_BOOTSTRAP_API_KEY adds one)'
}

/** A key that was set is not printed: this goes to logs as well as to terminals. */
function curlSnippet(url: string, { bootstrapApiKey }: Settings, newKey: string | undefined): string {
  const known = bootstrapApiKey ? 'SVC_BOOTSTRAP_API_KEY' : 'SVC_API_KEY'
  return `export SVC_API_KEY="${newKey ?? `\${${known}:-<your API key>}`}"
API=${url}/api/rest/v2 AUTH="Authorization: $SVC_API_KEY" JSON="Content-Type: application/json"
EXPERIMENT=$(curl -s $API/write/experiment/create -H "$AUTH" -H "$JSON" \\
  -d '{"workspaceName": "default", "projectName": "first"}' | sed 's/.*"experimentKey":"\\([^"]*\\)".*/\\1/')
curl -s $API/write/experiment/metric -H "$AUTH" -H "$JSON" \\
  -d '{"experimentKey": "'$EXPERIMENT'", "metricName": "loss", "metricValue": 0.25, "step": 1}'; echo; sleep 1
curl -s "$API/experiment/metrics/get-metric?experimentKey=$EXPERIMENT&metricName=loss" -H "$AUTH"
`
}

function pythonSnippet(url: string, { bootstrapApiKey }: Settings, newKey: string | undefined): string {
  const known = `os.environ["${bootstrapApiKey ? 'SVC_BOOTSTRAP_API_KEY' : 'SVC_API_KEY'}"]`
  return `import json, os, time, urllib.request

def svc(path, body=None):
    headers = {"Authorization": ${newKey ? `"${newKey}"` : known}, "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    return json.load(urllib.request.urlopen(urllib.request.Request("${url}/api/rest/v2/" + path, data, headers)))

key = svc("write/experiment/create", {"workspaceName": "default", "projectName": "first"})["experimentKey"]
points = [{"metricName": "loss", "metricValue": 1 / step, "step": step} for step in range(1, 101)]
print(svc("write/experiment/metrics/batch", {"experimentKey": key, "metrics": points}))
time.sleep(1)
print(svc("experiment/metrics/summary?experimentKey=" + key))
`
}
