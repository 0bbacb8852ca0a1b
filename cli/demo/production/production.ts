import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { describeTerminal } from '../../terminal/terminal.ts'
import { accountAnswer, savedAnswer } from '../answers.ts'
import { type Client, createClient } from '../client.ts'
import type { DemoOptions } from '../demo.ts'
import { loadDigits, splitSamples } from '../digits.ts'
import { DemoError } from '../errors.ts'
import type { Network, Samples } from '../network.ts'
import { createProgress, silentProgress } from '../progress.ts'
import { runExperiment } from '../run.ts'
import type { TrainingPlan } from '../trainer.ts'
import { registerVersion } from './registered.ts'
import { type Image, imagesOfDay, imagesOfTraining } from './traffic.ts'

// Two trainings of the network of the demo, registered as two versions of a model, and 90 days of that model in production:
// its reference, events, labels that come late, a segment, and alert rules that fire once the images drift. Everything goes
// over HTTP. Run again on another day, it adds what is missing: the same day always has the same events.

const modelName = 'digits'
const datasetName = 'digits-training'
const days = 90
const dayMs = 86_400_000
const itemsPerRequest = 500
const readableMsMax = 120_000

const versions = [
  { version: '1.0.0', epochs: 6, stages: [] },
  { version: '1.1.0', epochs: 15, stages: ['production'] },
] as const

export type ProductionReport = {
  ok: boolean
  url: string
  workspaceName: string
  modelName: string
  events: number
  labels: number
  duplicates: number
  page: string
}

const acceptedAnswer = z.object({
  accepted: z.number(),
  duplicates: z.number(),
  rejected: z.number(),
  labels: z.object({ accepted: z.number(), duplicates: z.number() }).optional(),
})

const overviewAnswer = z.object({ models: z.array(z.object({ events: z.number(), labels: z.number() })) })

/** Logs a model in production; rejects with DemoError when the service cannot be used or `signal` is aborted. */
export async function runProduction(options: DemoOptions): Promise<ProductionReport> {
  const { out, json, signal } = options
  const terminal = describeTerminal(out, process.env)
  const progress = json ? silentProgress : createProgress(out, terminal)
  try {
    const report = await logProduction(options, progress)
    progress.clear()
    out.write(json ? `${JSON.stringify(report, null, 2)}\n` : render(report))
    return report
  } catch (error) {
    progress.clear()
    if (signal.aborted) throw new DemoError('interrupted: the service keeps what was logged so far')
    throw error
  }
}

async function logProduction(
  { url, apiKey, workspace, project = 'demo', seed = 7, signal }: DemoOptions,
  progress: typeof silentProgress,
): Promise<ProductionReport> {
  const client = createClient({ url, apiKey, signal, onWait: progress.say })
  const workspaceName = workspace ?? (await client.get('account-details', {}, accountAnswer)).defaultWorkspaceName
  const { train, validate } = splitSamples(loadDigits(), 0.6, seed)
  const networks = {} as Record<'1.0.0' | '1.1.0', Network>
  for (const { version, epochs, stages } of versions) {
    progress.say(`Training version ${version} of the model ${modelName} (project ${project}).`)
    const run = await runExperiment({
      client,
      workspaceName,
      projectName: project,
      experimentName: `digits ${version}, ${epochs} epochs`,
      plan: toPlan({ train, validate }, { epochs, seed }),
      tags: ['demo', 'digits', version],
      onProgress: progress.update,
      signal,
    })
    if (!run.network) throw new DemoError('the training was stopped before its first epoch had ended')
    networks[version] = run.network
    const { experimentKey } = run.ledger
    const of = { workspaceName, modelName, version, stages: [...stages], experimentKey, network: run.network }
    progress.say((await registerVersion(client, of)) ? `Registered ${version}.` : `${version} is registered already.`)
  }

  progress.say(`Uploading the reference ${datasetName}.`)
  await uploadReference(client, { workspaceName, samples: train, network: networks['1.1.0'], seed })
  const ofModel = { workspaceName, modelName }
  await addOnce(client, 'segment', { ...ofModel, name: 'east scanner', filters: [isFrom('east')] })
  await addOnce(client, 'segment', { ...ofModel, name: 'north scanner', filters: [isFrom('north')] })

  const nowMs = Date.now()
  const todayMs = Math.floor(nowMs / dayMs) * dayMs
  progress.say(`Sending ${days} days of events and labels.`)
  const images: Image[] = []
  for (let ago = days - 1; ago >= 0; ago--) {
    images.push(...imagesOfDay({ samples: validate, networks, seed }, { todayMs, nowMs, ago }))
    signal.throwIfAborted()
  }
  const sent = { events: 0, labels: 0, duplicates: 0 }
  for (const some of toBatches(images)) {
    const data = some.map(({ label: _, ...it }) => ({ workspaceName, modelName, ...it }))
    const { accepted, duplicates } = await client.post('/mpm/v2/events/batch', { data }, acceptedAnswer)
    sent.events += accepted
    sent.duplicates += duplicates
  }
  // Labels that would come later than now are not there yet.
  const labelled = images.filter(({ label }) => label !== undefined && label.timestamp <= nowMs)
  for (const some of toBatches(labelled)) {
    const data = some.map(({ predictionId, modelVersion, label }) => ({
      ...{ workspaceName, modelName, modelVersion, predictionId },
      timestamp: label?.timestamp,
      labels: { value: label?.value },
    }))
    const { accepted, duplicates } = await client.post('/mpm/v2/labels/batch', { data }, acceptedAnswer)
    sent.labels += accepted
    sent.duplicates += duplicates
  }
  // What a program does wrong is counted as well.
  const [first] = images
  const wrong = [
    { ...first, workspaceName, modelName, prediction: { value: 'three', probability: 1.7 }, label: undefined },
  ]
  await client.post(
    '/mpm/v2/events/batch',
    { data: [{ ...wrong[0], predictionId: 'wrong-probability' }] },
    acceptedAnswer,
  )

  await untilReadable(client, { ...ofModel, events: images.length, labels: labelled.length }, { progress, signal })

  progress.say('Adding alert rules.')
  const rule = { ...ofModel, windowMs: dayMs, graceMs: 0, from: todayMs - 45 * dayMs }
  await addOnce(client, 'alert', {
    ...rule,
    name: 'Images get darker',
    measure: 'wasserstein',
    feature: 'ink',
    threshold: 0.4,
  })
  await addOnce(client, 'alert', {
    ...rule,
    name: 'Edges are missing',
    measure: 'missingShare',
    feature: 'edges',
    threshold: 0.2,
  })
  await addOnce(client, 'alert', { ...rule, name: 'Accuracy', measure: 'accuracy', threshold: 0.85 })
  const page = new URL(
    `${encodeURIComponent(workspaceName)}/-/production/${modelName}`,
    url.endsWith('/') ? url : `${url}/`,
  )
  return { ok: true, url, workspaceName, modelName, ...sent, page: page.href }
}

/** Rules look at a window once; these have no grace, and what was just acknowledged may not be readable yet. */
async function untilReadable(
  client: Client,
  { events, labels, ...ofModel }: { workspaceName: string; modelName: string; events: number; labels: number },
  { progress, signal }: { progress: typeof silentProgress; signal: AbortSignal },
) {
  const until = performance.now() + readableMsMax
  for (let looks = 1; ; looks++) {
    const { models } = await client.get('/mpm/v2/overview', { ...ofModel, verdict: 'false' }, overviewAnswer)
    const [found] = models
    if (found && found.events >= events && found.labels >= labels) return
    if (performance.now() > until) {
      throw new DemoError(
        `after ${readableMsMax / 1000} s only ${found?.events ?? 0} of ${events} events and ${found?.labels ?? 0} of ${labels} labels can be ` +
          'read: they are in the queue. See whether the worker and ClickHouse run, then run the demo again',
      )
    }
    if (looks === 1) progress.say('Waiting until all of it can be read.')
    await sleep(500, undefined, { signal })
  }
}

const toPlan = (
  samples: { train: Samples; validate: Samples },
  more: { epochs: number; seed: number },
): TrainingPlan => ({
  ...samples,
  hiddenUnits: [64, 32],
  classes: 10,
  batchSize: 32,
  momentum: 0.9,
  learningRate: 0.05,
  brokenStepsMax: 1,
  ...more,
})

const isFrom = (scanner: string) => ({ feature: 'scanner', operator: 'equals', values: [scanner] })

async function uploadReference(
  client: Client,
  {
    workspaceName,
    samples,
    network,
    seed,
  }: { workspaceName: string; samples: Samples; network: Network; seed: number },
) {
  const images = imagesOfTraining({ samples, network, seed })
  const names = Object.keys(images[0]?.features ?? {})
  const header = [
    'predictionId',
    ...names.map((it) => `feature_${it}`),
    ...['prediction_value', 'prediction_probability', 'label_value_value'],
  ]
  const lines = images.map(({ predictionId, features, prediction, label }) =>
    [predictionId, ...names.map((it) => features[it] ?? ''), prediction.value, prediction.probability, label].join(','),
  )
  const bytes = new TextEncoder().encode(`${[header.join(','), ...lines].join('\n')}\n`)
  const query = { workspaceName, modelName, datasetName }
  await client.upload('/mpm/v2/dataset/events/csv', query, { bytes, type: 'text/csv' }, z.unknown())
}

/** Adds something with a name, unless it is there from the last time. */
async function addOnce(client: Client, kind: 'segment' | 'alert', body: Record<string, unknown>): Promise<void> {
  const listAnswer = z.record(z.string(), z.unknown())
  const query = { workspaceName: String(body.workspaceName), modelName: String(body.modelName) }
  const found = (await client.get(`/mpm/v2/${kind}s`, query, listAnswer))[`${kind}s`] as { name: string }[]
  if (found.some((it) => it.name === body.name)) return
  await client.post(`/mpm/v2/${kind}s`, body, savedAnswer)
}

function toBatches<Item>(items: Item[]): Item[][] {
  return Array.from({ length: Math.ceil(items.length / itemsPerRequest) }, (_, at) =>
    items.slice(at * itemsPerRequest, (at + 1) * itemsPerRequest),
  )
}

function render({ events, labels, duplicates, page }: ProductionReport): string {
  const again = duplicates > 0 ? `; ${duplicates} were there from the last time` : ''
  return `${events} events and ${labels} labels of ${days} days were stored${again}.\n\nSee it drift: ${page}\n`
}
