import { z } from 'zod'
import { savedAnswer } from '../answers.ts'
import type { Client } from '../client.ts'
import type { Network } from '../network.ts'

type Version = {
  workspaceName: string
  modelName: string
  version: string
  stages: string[]
  experimentKey: string
  network: Network
}

const modelsAnswer = z.object({ models: z.array(z.object({ experimentModelId: z.string(), modelName: z.string() })) })
const registeredAnswer = z.object({ registryModels: z.array(z.object({ modelName: z.string() })).optional() })
const itemsAnswer = z.object({ items: z.array(z.object({ version: z.string() })) })

/**
 * Logs a network as the model of its run, and registers it. Resolves with false when the version is there from the last time:
 * it stays with the run of that time.
 */
export async function registerVersion(client: Client, it: Version): Promise<boolean> {
  const { workspaceName, modelName, version, stages, experimentKey, network } = it
  const layers = network.map(({ inputs, outputs, weights, biases }) => ({
    inputs,
    outputs,
    weights: Array.from(weights),
    biases: Array.from(biases),
  }))
  const bytes = new TextEncoder().encode(JSON.stringify({ layers }))
  await client.upload(
    'write/experiment/upload-asset',
    { experimentKey, fileName: 'network.json', type: 'model-element', groupingName: modelName },
    { bytes, type: 'application/octet-stream' },
    z.object({}),
  )
  const { models } = await client.get('experiment/model', { experimentKey }, modelsAnswer)
  const experimentModelId = models.find((it) => it.modelName === modelName)?.experimentModelId
  const { registryModels = [] } = await client.get('registry-model', { workspaceName }, registeredAnswer)
  const isThere = registryModels.some((it) => it.modelName === modelName)
  const made = { experimentModelId, registryModelName: modelName, version, stages, comment: 'From the demo' }
  if (!isThere) {
    const description = 'Reads handwritten digits of 8 x 8 pixels'
    await client.post('write/registry-model', { ...made, description, isPublic: false }, savedAnswer)
    return true
  }
  const { items } = await client.get('registry-model/items', { workspaceName, modelName }, itemsAnswer)
  if (items.some((it) => it.version === version)) return false
  await client.post('write/registry-model/item', made, savedAnswer)
  return true
}
