import { createClient } from '../../kit/http/client.ts'

type Sweep = { url: string; key: string; workspaceName?: string; projectName: string; runs: number }

const rates = [0.1, 0.03, 0.01, 0.003]
const optimizers = ['adamw', 'sgd', 'lion']
const allTags = ['baseline', 'bf16', 'ablation', 'nightly']
const steps = 60

/** Logs runs of a sweep, the same each time but for their keys and times; resolves with the keys. */
export async function logSweep({ url, key, workspaceName = 'default', projectName, runs }: Sweep): Promise<string[]> {
  const client = createClient(url, { apiKey: key, workspaceName })
  const post = async (path: string, body: object) => {
    const answer = await client.post(path, body)
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${answer.text}`)
    return answer.body
  }
  await post('/write/project/create', {
    workspaceName,
    projectName,
    projectDescription: 'Learning rate and optimizer of ResNets on CIFAR-10',
    isPublic: false,
  }).catch(() => undefined)
  const keys: string[] = []
  for (let at = 0; at < runs; at++) {
    const lr = rates[at % rates.length] as number
    const optimizer = optimizers[Math.floor(at / rates.length) % optimizers.length]
    const depth = at % 2 === 0 ? 18 : 50
    const created = await post('/write/experiment/create', {
      workspaceName,
      projectName,
      experimentName: `resnet${depth}-${optimizer}-${String(at).padStart(3, '0')}`,
    })
    const experimentKey = created.experimentKey as string
    keys.push(experimentKey)
    for (const [parameterName, parameterValue] of Object.entries({ lr, optimizer, depth, batch_size: 128 })) {
      await post('/write/experiment/parameter', { experimentKey, parameterName, parameterValue })
    }
    const addedTags = allTags.filter((_, tag) => (at + tag) % (tag + 2) === 0)
    if (addedTags.length > 0) await post('/write/experiment/tags', { experimentKey, addedTags })
    await post('/write/experiment/metrics/batch', { experimentKey, metrics: toPoints(at, lr) })
  }
  return keys
}

function toPoints(run: number, lr: number) {
  return Array.from({ length: steps }, (_, step) => {
    const noise = Math.sin(run * 7 + step * 1.7) * 0.02
    const loss = 2.1 * Math.exp((-step * Math.sqrt(lr)) / 4) + 0.22 + (run % 5) * 0.03 + noise
    return [
      { metricName: 'train/loss', metricValue: loss, step },
      { metricName: 'val/loss', metricValue: loss * 1.12 + noise, step },
      { metricName: 'val/accuracy', metricValue: Math.max(0.1, 1 - loss / 2.6), step },
    ]
  }).flat()
}
