import type { Client } from '../client.ts'
import { type Network, predict, type Samples } from '../network.ts'
import { toSheet } from './png.ts'
import { toSound } from './sound.ts'
import { uploadAsset } from './upload.ts'
import {
  toCertaintyCurve,
  toClasses,
  toConfusionMatrix,
  toEmbedding,
  toHistogram,
  toPage,
  toPoints,
  toTable,
} from './views.ts'

const wrongShown = 16
const scale = 8
const pixels = 64

type Run = { client: Client; experimentKey: string }

/** Logs what the network makes of the validation after an epoch, in every form that can be looked at. */
export async function logMedia(
  { client, experimentKey }: Run,
  {
    network,
    validate,
    step,
    epoch,
    isLast,
  }: { network: Network; validate: Samples; step: number; epoch: number; isLast: boolean },
): Promise<void> {
  const upload = (fileName: string, type: string, content: Buffer | string, metadata?: object) =>
    uploadAsset(
      client,
      { experimentKey, fileName, type, step, epoch, ...(metadata && { metadata: JSON.stringify(metadata) }) },
      Buffer.from(content),
    )
  const prediction = predict(network, validate)
  const predicted = toClasses(prediction, validate.count)
  const wrong = predicted.flatMap((it, image) => (it === validate.labels[image] ? [] : [image]))
  const shown = wrong.slice(0, wrongShown)
  const images = shown.map((it) => validate.features.subarray(it * pixels, (it + 1) * pixels))
  if (images.length > 0) {
    const read = shown.map((it) => `${validate.labels[it]} as ${predicted[it] === -1 ? 'nothing' : predicted[it]}`)
    const caption = `${wrong.length} of ${validate.count} were wrong; row by row: ${read.join(', ')}`
    await upload('validation/wrong.png', 'image', toSheet(images, scale).png, { caption })
  }
  await upload('validation/predictions.csv', 'dataframe', toTable(validate, prediction, predicted))
  const asJson = (fileName: string, type: string, content: object) => upload(fileName, type, JSON.stringify(content))
  await asJson('validation/confusion-matrix.json', 'confusion-matrix', toConfusionMatrix(validate, predicted))
  await asJson('validation/certainty.json', 'curve', toCertaintyCurve(validate, prediction, predicted))
  for (const [at, layer] of network.entries()) {
    const name = `weights/layer-${at + 1}`
    await asJson(`${name}.json`, 'histogram3d', toHistogram(name, layer.weights))
  }
  await asJson('weights/looks-at.json', '3d-points', toPoints('weights/looks-at', network))
  await upload('validation/by-digit.html', 'asset', toPage(validate, predicted, epoch))
  const best = predicted.filter((it, image) => it === validate.labels[image]).length
  await upload(
    'validation/summary.txt',
    'text-sample',
    `After epoch ${epoch}, ${best} of ${validate.count} images are read right.\n`,
  )
  if (isLast) await logEmbedding({ client, experimentKey }, validate, prediction, step)
}

async function logEmbedding(
  { client, experimentKey }: Run,
  validate: Samples,
  prediction: ReturnType<typeof predict>,
  step: number,
): Promise<void> {
  const { vectors, labels, shape } = toEmbedding(validate, prediction)
  const title = 'hidden-layer'
  // Of a network that has overflowed there is nothing to see.
  if (vectors.includes('NaN') || vectors.includes('Infinity')) return
  const part = async (ending: string, content: string | Buffer) => {
    const fileName = `${title}-${ending}`
    const assetId = await uploadAsset(client, { experimentKey, fileName, type: 'asset', step }, Buffer.from(content))
    return `/api/rest/v2/experiment/asset/get-asset?${new URLSearchParams({ experimentKey, assetId })}`
  }
  const images = Array.from({ length: validate.count }, (_, it) =>
    validate.features.subarray(it * pixels, (it + 1) * pixels),
  )
  const config = {
    tensorName: title,
    tensorShape: shape,
    tensorPath: await part('vectors.tsv', vectors),
    metadataPath: await part('labels.tsv', labels),
    sprite: { imagePath: await part('images.png', toSheet(images, 2).png), singleImageDim: [16, 16] },
  }
  const content = Buffer.from(JSON.stringify({ embeddings: [config] }))
  await uploadAsset(client, { experimentKey, fileName: `${title}.json`, type: 'embeddings', step }, content)
}

/** Logs the losses of all epochs as sound. */
export async function logSound({ client, experimentKey }: Run, losses: number[], step: number): Promise<void> {
  await uploadAsset(client, { experimentKey, fileName: 'loss.wav', type: 'audio', step }, toSound(losses))
}
