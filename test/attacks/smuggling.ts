import { randomBytes } from 'node:crypto'
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
