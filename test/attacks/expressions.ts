import { aPoint } from '../kit/builders.ts'
import type { Attack, AttackClass, Target } from './target.ts'

/** Expressions for which engines that go back and forth take longer than anybody lives. */
const expressions = [
  ...[
    '(a+)+$',
    '(a*)*$',
    '(a|a)*$',
    '(a|aa)+$',
    '(.*a){25}$',
    '^(([a-z])+.)+[A-Z]([a-z])+$',
    '(?:a?){40}a{40}',
    '([a-zA-Z]+)*$',
  ],
  ...[
    '(x+x+)+y',
    '((a{1,100}){1,100}){1,100}',
    'a{1,1000}{1,1000}',
    '(a{0,1000}){0,1000}b',
    '^(a?){1000}$',
    '\\pL{1000}'.repeat(20),
  ],
  ...[
    '(?=a)b',
    '(a)\\1',
    '(?<=a)b',
    '(?>a+)b',
    'a++b',
    '[',
    '(',
    '*',
    '\\',
    '(?i',
    'a{2,1}',
    '(?P<a>',
    '\\x{110000}',
    '[\\d-a]',
  ],
  ...[
    '('.repeat(2_000) + ')'.repeat(2_000),
    'a'.repeat(5_000),
    '.*'.repeat(500),
    '|'.repeat(5_000),
    '[a-z]'.repeat(1_000),
  ],
]
const long = `${'a'.repeat(20_000)}!`

/** Long texts of one character, for expressions of ours that read what callers send. */
const repeated = [
  ' ',
  '\t',
  '/',
  '.',
  '-',
  ';',
  ',',
  '"',
  "'",
  '\\',
  '(',
  '<',
  '=',
  '0',
  'a',
  '%',
  '%20',
  '\n',
  '{',
  '[',
  ':',
  '&amp;',
]

/** Searches and filters end soon, whatever expression they have: RE2 takes a time linear in the text. */
export async function createExpressions(target: Target): Promise<AttackClass> {
  const { client, projectName, projectId, workspaceName, url, apiKey } = target
  const experimentKey = await client.createExperiment({ projectName })
  await client.post('/write/experiment/parameter', {
    experimentKey,
    parameterName: 'long',
    parameterValue: long.slice(0, 5_000),
  })
  await client.post('/write/experiment/metric', { experimentKey, ...aPoint() })
  await client.post('/write/experiment/output', { experimentKey, outputLines: [{ output: long, offset: 0 }] })
  const held = ({ status, text }: { status: number; text: string }) =>
    status >= 500 ? `answered ${status}: ${text.slice(0, 200)}` : undefined
  const quoted = (text: string) => JSON.stringify(text)

  const searches: Attack[] = expressions.map((it) => ({
    name: it.slice(0, 40),
    async run() {
      const mlflow = {
        experiment_ids: [projectId],
        filter: `params.long LIKE '${it.replaceAll("'", '')}%a%a%a%a%a%a%b'`,
      }
      const answers = [
        await client.post('/project/runs', { projectId, columns: [], query: `params.long ~ ${quoted(it)}` }),
        await client.post('/project/runs', { projectId, columns: [], query: `long like ${quoted(it)}` }),
        await client.post('/project/query', { projectId, query: `params.long ~ ${quoted(it)}` }),
        await client.post('/project/query-completion', { projectId, query: `params.${it}` }),
        await client.post('/project/output/search', { projectId, search: it }),
        await client.send('POST', '/api/2.0/mlflow/runs/search', JSON.stringify(mlflow)),
        await client.send(
          'POST',
          '/api/mpm/v2/custom-metrics/query',
          JSON.stringify({
            modelId: 'x',
            cometSql: `SELECT count() FROM MODEL WHERE match(predictionId, '${it.replaceAll('\\', '\\\\').replaceAll("'", '')}')`,
          }),
        ),
      ]
      return answers.map(held).find((fault) => fault !== undefined)
    },
  }))
  const texts: Attack[] = repeated.map((it) => ({
    name: `${quoted(it)} by the thousand`,
    async run() {
      const text = it.repeat(30_000 / it.length)
      const encoded = encodeURIComponent(text.slice(0, 9_000))
      const headers = { authorization: apiKey, ...(/^[ -~]+$/.test(it) && { 'x-request-id': `a${text}a` }) }
      const answers = [
        await client.post('/write/experiment/metric', { experimentKey, metricName: `a${text}a`, metricValue: text }),
        await client.post('/write/experiment/log-other', { experimentKey, key: 'k', value: `a${text}a` }),
        await client.post('/write/experiment/upload-text-sample', { experimentKey, content: `a${text}a` }),
        await client.post('/project/runs', { projectId, columns: [], query: `a${text}a` }),
        await client.post('/write/experiment/create', { workspaceName, projectName, experimentName: text }),
        await client.post('/write/registry-model/item/create', {
          experimentKey,
          experimentModelName: text,
          registryModelName: text,
          version: text,
        }),
        await client.get(`/experiment/asset/get-by-name?experimentKey=${experimentKey}&assetName=${encoded}`),
        await client.get(`/experiment/metadata?experimentKey=${experimentKey}`, { headers }),
        await client.get('/workspaces', { apiKey: `Bearer a${/^[ -~]+$/.test(it) ? text : ''}a` }),
      ]
      const page = await fetch(`${url}/${encoded}`, { headers: { accept: 'text/html' } })
      return page.status >= 500
        ? `a page answered ${page.status}`
        : answers.map(held).find((fault) => fault !== undefined)
    },
  }))
  return { name: 'expressions that explode', oneIn: 5, attacks: [...searches, ...texts] }
}
