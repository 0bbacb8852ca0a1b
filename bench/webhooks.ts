import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { describeTerminal } from '../cli/terminal/terminal.ts'
import { createClosers } from '../runtime/closers.ts'
import { createCertificate, openReceiver } from '../test/kit/http/receiver.ts'
import { openBenchStores } from './contenders/stores.ts'
import { startSystem } from './contenders/system.ts'
import { median } from './report/report.ts'

/**
 * `npm run bench:webhooks`: measures webhook latency, from the answer to a stage change until the delivery arrives.
 * Alternates between one receiver alone and the same receiver beside unreachable ones.
 */
const usage = `Usage: npm run bench:webhooks -- [--rounds N] [--seconds N] [--dead N] [--json]\n`

const workspaceName = 'default'
const changeEveryMs = 50
const versions = 8
const arrivalMsMax = 30_000

type Payload = { addedStages: string[]; removedStages: string[] }

const toName = ({ addedStages, removedStages }: Payload) => `+${addedStages} -${removedStages}`

async function main() {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '5' },
      seconds: { type: 'string', default: '6' },
      dead: { type: 'string', default: '1' },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  if (values.help) return void process.stdout.write(usage)
  const [rounds, seconds, dead] = [Number(values.rounds), Number(values.seconds), Number(values.dead)]
  if (!(rounds >= 1) || !(seconds > 0 && seconds <= 120) || !(dead >= 1 && dead <= 50)) {
    throw new Error(`--rounds from 1, --seconds up to 120, --dead from 1 to 50.\n${usage}`)
  }
  const closers = createClosers()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => closers.closeAll().finally(() => process.exit(130)))
  }
  try {
    say('Starting the stores and the service')
    const stores = await openBenchStores(closers)
    const queue = stores.urls.redisUrl ? 'redis' : 'postgres'
    const certificate = await createCertificate()
    const settings = { ...certificate.settings, SVC_MASTER_KEY: randomBytes(32).toString('base64') }
    const system = await startSystem({ target: 'service', queue, stores, closers, profileFolder: undefined, settings })
    const call = createCaller(system.readUrl, stores.apiKey)

    const arrivedAt = new Map<string, number>()
    const good = await openReceiver(certificate, ({ json }) => {
      arrivedAt.set(toName(json as Payload), performance.now())
      return { status: 204 }
    })
    closers.push(good.close)
    const hanging = await Promise.all(Array.from({ length: dead }, () => openReceiver(certificate, () => 'hang')))
    for (const { close } of hanging) closers.push(close)
    const configure = async (urls: string[]) => {
      const webhookConfigs = [{ workspaceName, webhookUrls: urls.map((url) => ({ url })) }]
      await call('PUT', '/webhooks/config', { webhookConfigs })
    }

    const items = await registerVersions(call)
    let changes = 0

    async function runRound(): Promise<number[]> {
      const answeredAt = new Map<string, number>()
      for (let at = performance.now(); answeredAt.size < (seconds * 1_000) / changeEveryMs; at += changeEveryMs) {
        await sleep(Math.max(0, at - performance.now()))
        const modelItemId = items[changes % items.length] as string
        const turn = Math.floor(changes++ / items.length)
        const stage = `${modelItemId} ${Math.floor(turn / 2)}`
        const isAdded = turn % 2 === 0
        const query = new URLSearchParams({ modelItemId, stage })
        await call('GET', `/write/registry-model/item/stage${isAdded ? '' : '/delete'}?${query}`)
        answeredAt.set(isAdded ? `+${stage} -` : `+ -${stage}`, performance.now())
      }
      const deadline = performance.now() + arrivalMsMax
      while ([...answeredAt.keys()].some((it) => !arrivedAt.has(it))) {
        if (performance.now() > deadline) throw new Error('A change did not arrive.')
        await sleep(10)
      }
      return [...answeredAt].map(([name, at]) => (arrivedAt.get(name) as number) - at)
    }

    const alone: number[][] = []
    const beside: number[][] = []
    await configure([good.url])
    say('Warming up')
    await runRound()
    for (let round = 1; round <= rounds; round++) {
      say(`Round ${round} of ${rounds}`)
      await configure([good.url])
      alone.push(await runRound())
      await configure([good.url, ...hanging.map((it) => it.url)])
      beside.push(await runRound())
    }
    const result = { queue, dead, alone: summarize(alone), besideDead: summarize(beside) }
    process.stdout.write(values.json ? `${JSON.stringify(result)}\n` : renderResult(result))
  } finally {
    await closers.closeAll()
  }
}

type Call = (method: string, path: string, body?: unknown) => Promise<Record<string, unknown>>

function createCaller(url: string, apiKey: string): Call {
  return async (method, path, body) => {
    const answer = await fetch(`${url}/api/rest/v2${path}`, {
      method,
      headers: { authorization: apiKey, ...(body !== undefined && { 'content-type': 'application/json' }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${path} was answered ${answer.status}: ${text}`)
    return text.startsWith('{') ? JSON.parse(text) : {}
  }
}

/** Registers a model with several versions, and returns their ids. */
async function registerVersions(call: Call): Promise<string[]> {
  const { experimentKey } = await call('POST', '/write/experiment/create', { workspaceName, projectName: 'bench' })
  const asset = { link: 's3://bucket/weights', type: 'model-element', groupingName: 'net', isRemote: 'true' }
  const query = new URLSearchParams({ experimentKey: experimentKey as string, ...asset })
  await call('POST', `/write/experiment/upload-asset?${query}`, {})
  const { models } = await call('GET', `/experiment/model?experimentKey=${experimentKey}`)
  const [{ experimentModelId }] = models as [{ experimentModelId: string }]
  const items: string[] = []
  for (let at = 0; at < versions; at++) {
    const path = at === 0 ? '/write/registry-model' : '/write/registry-model/item'
    const made = await call('POST', path, { experimentModelId, registryModelName: 'bench' })
    items.push(made.registryModelItemId as string)
  }
  return items
}

function summarize(rounds: number[][]) {
  const share = (part: number) =>
    median(rounds.map((tookMs) => tookMs.toSorted((a, b) => a - b)[Math.floor(tookMs.length * part)] as number))
  return { p50Ms: share(0.5), p99Ms: share(0.99) }
}

type Result = { queue: string; dead: number } & Record<'alone' | 'besideDead', ReturnType<typeof summarize>>

function renderResult({ queue, dead, alone, besideDead }: Result): string {
  const line = (what: string, { p50Ms, p99Ms }: Result['alone']) =>
    `  ${what.padEnd(40)} p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms\n`
  return (
    `A change of a stage every ${changeEveryMs} ms, from its answer to its arrival, queue in ${queue}; medians of the rounds\n\n` +
    line('alone', alone) +
    line(`beside ${dead} that never answer`, besideDead)
  )
}

function say(text: string) {
  process.stderr.write(`${describeTerminal(process.stderr, process.env).paint('dim', text)}\n`)
}

await main()
