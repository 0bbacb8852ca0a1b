import path from 'node:path'
import type { Settings } from '../settings.ts'
import type { Terminal } from './terminal.ts'

/** The facts about a started service. */
type Started = {
  settings: Settings
  /** Its address on this machine. */
  url: string
  /** The first API key, if it was made now: it cannot be shown again. */
  newKey: string | undefined
  /** Opens the web interface, once. */
  signInLink: string | undefined
  tookMs: number
}

/**
 * The text after the start: address, data folder, how to stop, and snippets that log a first point from the shell and Python. The
 * snippets are not indented and contain the key, so that they can be pasted.
 */
export function describeStarted({ settings, url, newKey, signInLink, tookMs }: Started, terminal: Terminal): string {
  const row = (name: string, value: string) => `  ${terminal.paint('dim', name.padEnd(12))} ${value}\n`
  const heading = (text: string) => `\n${terminal.paint('bold', text)}\n\n`
  const hasEmbedded = !settings.clickhouseUrl || !settings.postgresUrl
  return [
    `\nReady in ${(tookMs / 1000).toFixed(1)} s.\n\n`,
    row('Address', terminal.paint('bold', url)),
    settings.publicUrl ? row('Public', settings.publicUrl) : '',
    signInLink ? row('Open', `${terminal.paint('green', signInLink)}  (signs in once, within ten minutes)`) : '',
    row('Reference', `${url}/reference`),
    hasEmbedded ? row('Data folder', path.resolve(settings.dataFolder)) : '',
    row('API key', describeKey(settings, newKey, terminal)),
    row('Stop', 'Ctrl-C (acknowledged writes are kept)'),
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

/** Does not print a key that was set: the output may go to logs. */
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
