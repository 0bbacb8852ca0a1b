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
 * The text after the start: address, data folder, how to stop, and snippets that log a first point from the shell and a curve from Python. The
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
    heading('Or from Python, after "pip install ./clients/python/svc-ml":'),
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

/** Without a key that it knows, the client looks for SVC_API_KEY itself. */
function pythonSnippet(url: string, { bootstrapApiKey }: Settings, newKey: string | undefined): string {
  const isFromBootstrap = !newKey && bootstrapApiKey !== undefined
  const key = newKey ? `, api_key="${newKey}"` : isFromBootstrap ? ', api_key=os.environ["SVC_BOOTSTRAP_API_KEY"]' : ''
  return `${isFromBootstrap ? 'import os\n' : ''}from svc_ml import Experiment
with Experiment(url="${url}"${key}, project_name="first") as experiment:
    for step in range(1, 101):
        experiment.log_metric("loss", 1 / step, step=step)
`
}
