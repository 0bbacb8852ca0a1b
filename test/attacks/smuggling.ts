import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Closers } from '../../runtime/closers.ts'
import { findFreePort } from '../../store/embedded/free-port.ts'
import { checkAnswers, ProgramMissing, startProcess, waitUntilReady } from '../kit/processes/process.ts'
import { exchange } from './exchange.ts'
import { createMessages } from './messages.ts'
import { type Attack, type AttackClass, readMetricNames, type Target } from './target.ts'

const prefix = '/api/rest/v2'
const outerPath = `${prefix}/write/experiment/metric`
/** The proxy refuses this one: only a request that the proxy has not seen can write to it. */
const innerPath = '/clientlib/rest/v2/write/experiment/metric'

/**
 * Hides a write of a metric in the body of another request. No metric of such a name may ever be stored: neither from the bytes
 * as they are, nor through a proxy that knows nothing of the hidden one.
 */
export async function createSmuggling(target: Target, url: string, name: string): Promise<AttackClass> {
  const { apiKey, client, projectName } = target
  const experimentKey = await client.createExperiment({ projectName })
  const mark = `smuggled-${randomBytes(4).toString('hex')}`
  const messages = createMessages({ path: outerPath, apiKey, experimentKey })
  const toInner = (at: number) =>
    toWrite(innerPath, apiKey, { experimentKey, metricName: `${mark}-${at}`, metricValue: 1 })
  const attacks: Attack[] = messages.map((message, at) => ({
    name: message.name,
    async run() {
      const answers = await exchange(url, message.toBytes(toInner(at)), { isHead: message.name.startsWith('a HEAD') })
      const odd = answers.find(({ status }) => status >= 500 && status !== 501 && status !== 502)
      if (odd) return `answered ${odd.status}`
      // Whoever comes next over the same connections of the proxy gets its own answers.
      for (let next = 0; next < 2; next++) {
        const key = next === 0 ? experimentKey : target.experimentKey
        const answer = await fetch(`${url}${prefix}/experiment/metadata?experimentKey=${key}`, {
          headers: { authorization: apiKey },
        })
        const { experimentKey: answered } = (await answer.json()) as { experimentKey?: string }
        if (answered !== key) return `the next caller got the answer of another: ${answer.status}`
      }
      return undefined
    },
  }))
  return {
    name,
    attacks,
    async finish() {
      const names = await readMetricNames(target, experimentKey)
      return names
        .filter((it) => it.startsWith(mark))
        .map((it) => `executed the hidden request of: ${messages[Number(it.split('-').at(-1))]?.name}`)
    },
  }
}

/** Several requests at once are no attack: each is answered, in order. It shows that hidden requests would be seen. */
export async function createPipelining(target: Target): Promise<AttackClass> {
  const { apiKey, client, projectName, url } = target
  const experimentKey = await client.createExperiment({ projectName })
  const names = ['first', 'second', 'third']
  return {
    name: 'pipelining',
    attacks: [
      {
        name: 'three requests at once',
        async run() {
          const all = names.map((metricName) =>
            toWrite(innerPath, apiKey, { experimentKey, metricName, metricValue: 1 }),
          )
          const answers = await exchange(url, Buffer.concat(all), { count: names.length, silenceMs: 0 })
          const statuses = answers.map((it) => it.status).join()
          return statuses === '200,200,200' ? undefined : `answered ${statuses}`
        },
      },
    ],
    async finish() {
      const stored = await readMetricNames(target, experimentKey)
      return names.filter((it) => !stored.includes(it)).map((it) => `${it} is not stored`)
    },
  }
}

function toWrite(at: string, apiKey: string, fields: object): Buffer {
  const body = JSON.stringify(fields)
  const lines = [
    `POST ${at} HTTP/1.1`,
    'host: localhost',
    `authorization: ${apiKey}`,
    `content-length: ${body.length}`,
    '',
    '',
  ]
  return Buffer.from(lines.join('\r\n') + body)
}

/** Starts nginx before the service, with few connections to it, which it reuses. Undefined where there is no nginx. */
export async function startProxy(service: string, closers: Closers): Promise<string | undefined> {
  const folder = await mkdtemp(path.join(tmpdir(), 'svc-attacks-'))
  closers.push(() => rm(folder, { recursive: true, force: true }))
  const port = await findFreePort()
  const file = path.join(folder, 'nginx.conf')
  await writeFile(file, toConfiguration(folder, port, new URL(service).host))
  try {
    const environment = { PATH: `${process.env.PATH}:/usr/sbin` }
    const running = startProcess({ file: 'nginx', args: ['-p', folder, '-c', file, '-e', 'error.log'], environment })
    closers.push(() => running.stop('SIGTERM'))
    const url = `http://127.0.0.1:${port}`
    await waitUntilReady('nginx', running, () => checkAnswers(`${url}/livez`))
    return url
  } catch (error) {
    if (error instanceof ProgramMissing) return undefined
    throw error
  }
}

const toConfiguration = (folder: string, port: number, service: string) => `
daemon off;
master_process off;
pid ${folder}/nginx.pid;
error_log ${folder}/error.log;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path ${folder}/body;
  proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi;
  uwsgi_temp_path ${folder}/uwsgi;
  scgi_temp_path ${folder}/scgi;
  client_header_timeout 2s;
  client_body_timeout 2s;
  underscores_in_headers on;
  ignore_invalid_headers off;
  upstream service { server ${service}; keepalive 1; }
  server {
    listen 127.0.0.1:${port};
    location /clientlib/ { return 403; }
    location / {
      proxy_pass http://service;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_request_buffering off;
      proxy_ignore_client_abort on;
    }
  }
}
`
