type Place = { url: string; workspace: string; key: string }

/** What to paste, by client. Texts are JSON, which shells and Python read as they stand inside double quotes. */
export function toSnippets({ url, workspace, key }: Place): { name: string; about: string; code: string }[] {
  const quoted = JSON.stringify(workspace)
  return [
    {
      name: 'Python',
      about: 'svc_ml: experiments, online and offline. Install it from clients/python/svc-ml.',
      code: `import os
os.environ["SVC_URL"] = "${url}"
os.environ["SVC_API_KEY"] = "${key}"

from svc_ml import Experiment

with Experiment(workspace=${quoted}, project_name="first") as experiment:
    for step in range(100):
        experiment.log_metric("loss", 1 / (step + 1), step=step)
`,
    },
    {
      name: 'TypeScript',
      about: '@svc/client for Node. Install it from clients/typescript.',
      code: `import { Experiment } from '@svc/client'

const experiment = Experiment.create({
  url: '${url}',
  apiKey: '${key}',
  workspaceName: ${quoted},
  projectName: 'first',
})
for (let step = 0; step < 100; step++) experiment.logMetrics({ loss: 1 / (step + 1) }, { step })
await experiment.end()
`,
    },
    {
      name: 'curl',
      about: 'The HTTP interface itself: two calls log a first point.',
      code: `export SVC_API_KEY="${key}"
API=${url}/api/rest/v2 AUTH="Authorization: $SVC_API_KEY" JSON="Content-Type: application/json"
EXPERIMENT=$(curl -s $API/write/experiment/create -H "$AUTH" -H "$JSON" \\
  -d '${JSON.stringify({ workspaceName: workspace, projectName: 'first' }).replaceAll("'", "'\\''")}' | sed 's/.*"experimentKey":"\\([^"]*\\)".*/\\1/')
curl -s $API/write/experiment/metric -H "$AUTH" -H "$JSON" \\
  -d '{"experimentKey": "'$EXPERIMENT'", "metricName": "loss", "metricValue": 0.25, "step": 1}'
`,
    },
    {
      name: 'comet_ml',
      about: 'Code that uses the REST classes of comet_ml works unchanged: two environment variables point it here.',
      code: `export COMET_URL_OVERRIDE=${url}/clientlib/
export COMET_API_KEY=${key}
`,
    },
  ]
}
