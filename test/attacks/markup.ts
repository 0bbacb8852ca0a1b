import { createAssetClient } from '../kit/clients/assets.ts'
import type { Attack, AttackClass, Target } from './target.ts'
import { toValue } from './values.ts'

const script = '<script>alert(document.domain)</script>'
const texts = [
  script,
  '"><img src=x onerror=alert(1)>',
  `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`,
  '<?xml version="1.0"?><?xml-stylesheet href="javascript:alert(1)"?><a xmlns="http://www.w3.org/1999/xhtml"/>',
]
/** What browsers run in the origin that sent it, by its ending and its type. */
const active: [fileName: string, type: string][] = [
  ...[
    ['a.html', 'text/html'],
    ['a.htm', ''],
    ['a.xhtml', 'application/xhtml+xml'],
    ['a.svg', 'image/svg+xml'],
    ['a.xml', 'text/xml'],
  ],
  ...[
    ['a.js', 'text/javascript'],
    ['a.mjs', ''],
    ['a.swf', ''],
    ['a.pdf', 'application/pdf'],
    ['a.mht', 'multipart/related'],
  ],
  ...[
    ['a', 'text/html; charset=utf-7'],
    ['a.png', 'text/html'],
    ['a.txt', 'text/html'],
    ['a.json', 'text/html'],
    ['a.css', 'text/css'],
  ],
  ...[
    ['a.wasm', 'application/wasm'],
    ['a.xsl', 'text/xsl'],
    ['a.vtt', 'text/vtt'],
    ['a.hta', ''],
    ['a.svgz', ''],
    ['a.shtml', ''],
  ],
] as [string, string][]

/** They would take away what other attacks are about, or have no end. */
const hasOtherEffects = /delete|remove|archive|restore|move|admin|account|session|sign|keys?$|stream|webhooks|rename/i

const isActive = (type: string) => /html|xml|svg|javascript|ecmascript|css|xsl|shockwave|multipart/.test(type)

/** What is wrong with an answer that carries what somebody logged, to a browser that opens its address. */
function findFault(answer: Response): string | undefined {
  const type = answer.headers.get('content-type') ?? ''
  const policy = answer.headers.get('content-security-policy') ?? ''
  if (answer.headers.get('x-content-type-options') !== 'nosniff') return `${type} without nosniff`
  if (type.startsWith('application/json') || type.startsWith('text/plain') || type === '') return undefined
  const isDownload = /^attachment/.test(answer.headers.get('content-disposition') ?? '')
  const isSandbox =
    /(^|;)\s*sandbox\b/.test(policy) && !/allow-same-origin/.test(policy) && /default-src 'none'/.test(policy)
  if (isActive(type)) return isDownload || isSandbox ? undefined : `${type} is shown in the origin of the service`
  return undefined
}

/** Markup in every field that is stored, and in files: no answer makes a browser run it in the origin of the service. */
export async function createMarkup(target: Target): Promise<AttackClass> {
  const { client, url, apiKey, workspaceName, projectName, document } = target
  const experimentKey = await client.createExperiment({ projectName, experimentName: script })
  const assets = createAssetClient(target)
  const open = (path: string) =>
    fetch(`${url}${path}`, { headers: { authorization: apiKey, accept: 'text/html,*/*;q=0.8' }, redirect: 'manual' })

  const files: Attack[] = active.map(([fileName, type]) => ({
    name: `${fileName} as ${type || 'no type'}`,
    async run() {
      const sent = { body: Buffer.from(script), headers: { 'content-type': type || 'application/octet-stream' } }
      const { body, status, text } = await assets.upload({ experimentKey, fileName, type: 'image' }, sent)
      if (status !== 200) return `answered ${status}: ${text}`
      const query = new URLSearchParams({ experimentKey, assetId: body.assetId as string })
      for (const path of ['get-asset', 'page', 'rows', 'zip']) {
        const answer = await open(`/api/rest/v2/experiment/asset/${path}?${query}`)
        await answer.text()
        const fault = findFault(answer)
        if (fault) return `${path}: ${fault}`
      }
      return undefined
    },
  }))

  const write = (path: string, fields: object) => client.post(`/write/experiment/${path}`, { experimentKey, ...fields })
  const stored: Attack[] = texts.map((text) => ({
    name: `${text.slice(0, 40)} in every field of a run`,
    async run() {
      const answers = [
        await write('metric', { metricName: text, metricValue: 1, context: text }),
        await write('parameter', { parameterName: text, parameterValue: text }),
        await write('log-other', { key: text, value: text }),
        await write('tags', { addedTags: [text] }),
        await write('html', { html: text }),
        await write('code', { code: text }),
        await write('graph', { graph: JSON.stringify({ a: text }) }),
        await write('output', { outputLines: [{ output: text, offset: 0 }] }),
        await write('git/metadata', { user: text, root: text, branch: text, parent: text, origin: text }),
        await write('system-details', { user: text, os: text, command: [text] }),
        await write('cloud-details', { provider: text, metadata: { a: text } }),
        await write('file-path', { filePath: text }),
        await write('upload-text-sample', { content: text, context: text }),
        await client.post('/write/project/notes', { projectId: target.projectId, notes: text }),
        await client.post('/write/views/upsert', { projectId: target.projectId, templateName: text }),
        await client.post('/write/artifacts/upsert', {
          experimentKey,
          artifactName: text,
          versionMetadata: JSON.stringify(text),
        }),
      ]
      const refused = answers.find((it) => it.status >= 500)
      return refused ? `answered ${refused.status}: ${refused.text}` : undefined
    },
  }))

  const known: Record<string, string> = { experimentKey, workspaceName, projectName, projectId: target.projectId }
  // Whatever is added to the API has markup in all of its fields, too.
  const writes: Attack[] = Object.entries(document.paths)
    .filter(([path, { post }]) => post?.requestBody && !hasOtherEffects.test(path))
    .map(([path, { post }]) => ({
      name: `POST ${path} with markup in every field`,
      async run() {
        const schema = post?.requestBody?.content['application/json']?.schema
        if (!schema) return undefined
        const body = JSON.stringify(toValue(schema, '', { known, text: script }))
        const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) => encodeURIComponent(known[name] ?? script))
        const headers = { 'content-type': 'application/json' }
        const { status, text } = await client.send('POST', `${url}${filled}`, body, { headers })
        return status >= 500 && status !== 501 ? `answered ${status}: ${text}` : undefined
      },
    }))
  const reads: Attack[] = Object.entries(document.paths)
    .filter(([path, { get }]) => get && !/stream$|archive$|isAlive/.test(path))
    .map(([path, { get }]) => ({
      name: `GET ${path} in a browser`,
      async run() {
        const query = new URLSearchParams()
        for (const { name, in: place } of get?.parameters ?? []) {
          if (place === 'query') query.set(name, known[name] ?? script)
        }
        for (const search of [query, new URLSearchParams(known)]) {
          const filled = path.replaceAll(/\{\w+\}/g, encodeURIComponent(script))
          const answer = await open(`${filled}?${search}`)
          await answer.text()
          const fault = findFault(answer)
          if (fault) return `${search.toString().slice(0, 80)}: ${fault}`
        }
        return undefined
      },
    }))
  const pages: Attack[] = [
    `/${encodeURIComponent(script)}`,
    `/-/sign-in?reason=${script}`,
    `/-/embed/a/b/-/chart?metric=${script}`,
    `/x?a=${script}`,
    '/reference',
  ].map((path) => ({
    name: `the page ${path}`,
    async run() {
      const answer = await open(path)
      const text = await answer.text()
      if (text.includes('alert(document.domain)')) return 'repeats what is in its address'
      return answer.headers.get('x-content-type-options') === 'nosniff' ? undefined : 'is sent without nosniff'
    },
  }))
  // In this order: reads show what was written.
  return { name: 'stored markup', oneIn: 5, attacks: [...stored, ...writes, ...files, ...reads, ...pages] }
}
