import { artifactAnswer, savedAnswer, versionAnswer } from '../answers.ts'
import type { Client } from '../client.ts'
import { type Network, predict, type Samples } from '../network.ts'
import { uploadAsset } from './upload.ts'
import { toClasses } from './views.ts'

// What leads from one run to the next: the images as an artifact in two versions, and the network as a registered model.

const pixels = 64
const artifactName = 'digits'
const modelName = 'digits-network'

type Run = { client: Client; experimentKey: string }

/** Makes a closed version of the artifact with these files; resolves with its id. */
async function makeVersion(
  { client, experimentKey }: Run,
  files: Record<string, string>,
  more: { aliases?: string[]; metadata: object },
): Promise<string> {
  const { artifactVersionId } = await client.post(
    'write/artifacts/upsert',
    {
      experimentKey,
      artifactName,
      artifactType: 'dataset',
      description: 'Images of handwritten digits, 8 x 8 pixels each',
      versionMetadata: JSON.stringify(more.metadata),
      ...(more.aliases && { alias: more.aliases }),
    },
    artifactAnswer,
  )
  for (const [fileName, content] of Object.entries(files)) {
    await uploadAsset(client, { experimentKey, artifactVersionId, fileName, type: 'asset' }, Buffer.from(content))
  }
  await client.post('write/artifacts/state', { experimentKey, artifactVersionId, state: 'CLOSED' }, savedAnswer)
  return artifactVersionId
}

/** The images that a run trains with and validates by. */
export const logImages = (run: Run, { train, validate }: { train: Samples; validate: Samples }) =>
  makeVersion(
    run,
    {
      'README.md': readme,
      'train/images.csv': toCsv(train),
      'validate/images.csv': toCsv(validate),
    },
    { metadata: { train: train.count, validate: validate.count } },
  )

/** The next version: the same images, and those of the validation that the network reads wrong by themselves. */
export function logHardImages(run: Run, data: { train: Samples; validate: Samples }, network: Network) {
  const { train, validate } = data
  const predicted = toClasses(predict(network, validate), validate.count)
  const hard = predicted.flatMap((it, image) => (it === validate.labels[image] ? [] : [image]))
  return makeVersion(
    run,
    {
      'README.md': `${readme}\n\`hard/images.csv\` has the images of the validation that a first network reads wrong.\n`,
      'train/images.csv': toCsv(train),
      'validate/images.csv': toCsv(validate),
      'hard/images.csv': toCsv(validate, hard),
    },
    { aliases: ['with-hard-images'], metadata: { train: train.count, validate: validate.count, hard: hard.length } },
  )
}

/** Says that a run uses a version. */
export async function recordUse({ client, experimentKey }: Run, versionId: string): Promise<void> {
  await client.get('artifacts/version', { versionId, consumerExperimentKey: experimentKey }, versionAnswer)
}

/** Logs a network as a model of the run, and registers it as the next version of a registered model. */
export async function logNetwork(
  { client, experimentKey }: Run,
  network: Network,
  accuracy: number | null,
): Promise<void> {
  const of = { experimentKey, type: 'model-element', groupingName: modelName }
  const layers = network.map(({ inputs, outputs, weights, biases }) => ({
    inputs,
    outputs,
    weights: Array.from(weights),
    biases: Array.from(biases),
  }))
  await uploadAsset(client, { ...of, fileName: 'network.json' }, Buffer.from(JSON.stringify({ layers })))
  const body = {
    experimentKey,
    experimentModelName: modelName,
    registryModelName: modelName,
    registryModelDescription: 'Reads handwritten digits of 8 x 8 pixels',
    versionComment: accuracy === null ? '' : `${(100 * accuracy).toFixed(1)} % of the validation at best`,
  }
  await client.post('write/registry-model/item/create', body, savedAnswer)
}

function toCsv(samples: Samples, chosen = Array.from({ length: samples.count }, (_, it) => it)): string {
  const names = ['digit', ...Array.from({ length: pixels }, (_, it) => `pixel ${it}`)]
  const rows = chosen.map((image) =>
    [samples.labels[image], ...samples.features.subarray(image * pixels, (image + 1) * pixels)].join(','),
  )
  return `${[names.join(','), ...rows].join('\n')}\n`
}

const readme = `# Handwritten digits

From the UCI data set “Optical Recognition of Handwritten Digits”, CC BY 4.0. One image a row: the digit, then ink from 0 to 1
of 64 pixels.
`
