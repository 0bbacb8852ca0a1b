import { useState } from 'react'
import { baseUrl } from '../api/http.ts'
import { Snippet } from '../kit/snippet.tsx'
import styles from './empty-project.module.css'

type Props = { workspace: string; project: string }

const clients = ['svc_ml', 'comet_ml', 'curl'] as const
const names = { svc_ml: 'Python', comet_ml: 'comet_ml', curl: 'curl' }

/** What a project without a run shows: the lines to paste. The page turns into the runs by itself. */
export function EmptyProject({ workspace, project }: Props) {
  const [client, setClient] = useState<(typeof clients)[number]>('svc_ml')
  return (
    <div className={styles.page}>
      <h1>Log the first run</h1>
      <p className={styles.text}>
        Paste this where you train. The run appears here by itself as soon as its first point is stored.
      </p>
      <div className={styles.tabs} role="tablist" aria-label="Client">
        {clients.map((it) => (
          <button
            key={it}
            type="button"
            role="tab"
            aria-selected={it === client}
            className={styles.tab}
            onClick={() => setClient(it)}
          >
            {names[it]}
          </button>
        ))}
      </div>
      <Snippet code={toCode(client, workspace, project)} label="Copy the lines" />
      <p className={styles.waiting} role="status">
        <span className={styles.dot} /> Waiting for the first point …
      </p>
    </div>
  )
}

/** Text in quotes of JSON is text in Python too. */
const quoted = (text: string) => JSON.stringify(text)

function toCode(client: (typeof clients)[number], workspace: string, project: string): string {
  const url = baseUrl.href.replace(/\/$/, '')
  if (client === 'svc_ml') {
    return `# pip install ./clients/python/svc-ml
# export SVC_URL=${url} SVC_API_KEY=<your API key>
from svc_ml import Experiment

experiment = Experiment(workspace=${quoted(workspace)}, project_name=${quoted(project)})
for step in range(100):
    experiment.log_metric("loss", 1 / (step + 1), step=step)
experiment.end()`
  }
  if (client === 'comet_ml') {
    return `# export COMET_URL_OVERRIDE=${url}/clientlib/ COMET_API_KEY=<your API key>
import comet_ml

experiment = comet_ml.APIExperiment(workspace=${quoted(workspace)}, project_name=${quoted(project)})
for step in range(100):
    experiment.log_metric("loss", 1 / (step + 1), step=step)`
  }
  const shell = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`
  const place = shell(JSON.stringify({ workspaceName: workspace, projectName: project }))
  return `API=${url}/api/rest/v2 AUTH="Authorization: <your API key>" JSON="Content-Type: application/json"
EXPERIMENT=$(curl -s $API/write/experiment/create -H "$AUTH" -H "$JSON" \\
  -d ${place} | sed 's/.*"experimentKey":"\\([^"]*\\)".*/\\1/')
curl -s $API/write/experiment/metric -H "$AUTH" -H "$JSON" \\
  -d '{"experimentKey": "'$EXPERIMENT'", "metricName": "loss", "metricValue": 0.25, "step": 1}'`
}
