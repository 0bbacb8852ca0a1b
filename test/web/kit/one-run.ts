import { createClient } from '../../kit/http/client.ts'

type Run = { url: string; key: string; experimentKey: string; projectId: string }

const minutes = 90

/** Everything that a run may have besides metrics: output, code, a patch, files, notes, a graph, the load of its machine. */
export async function logOneRun({ url, key, experimentKey, projectId }: Run): Promise<void> {
  const client = createClient(url, { apiKey: key, workspaceName: 'default' })
  const write = async (path: string, fields: object) => {
    const answer = await client.post(`/write/experiment/${path}`, { experimentKey, ...fields })
    if (answer.status !== 200) throw new Error(`${path} answered ${answer.status}: ${answer.text}`)
  }
  const upload = async (path: string, body: string) => {
    const answer = await fetch(`${url}/api/rest/v2/write/experiment/${path}experimentKey=${experimentKey}`, {
      method: 'POST',
      headers: { authorization: key, 'content-type': 'application/octet-stream' },
      body,
    })
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`)
  }
  const outputLines = Array.from({ length: 40 }, (_, at) => ({
    output: `\x1b[2m${String(at).padStart(3)}\x1b[0m \x1b[36mepoch ${at}\x1b[0m  loss \x1b[1m${(2.3 / (at + 1)).toFixed(4)}\x1b[0m${
      at % 13 === 12 ? '  \x1b[33mthe learning rate was halved\x1b[0m' : ''
    }\n`,
    offset: at,
  }))
  await write('output', { outputLines })
  await write('code', { code })
  await write('graph', { graph })
  await write('log-other', { key: 'notes', value: notes })
  await upload('git/patch?', patch)
  for (const [name, text] of [
    ['config/train.yaml', 'lr: 0.1\nbatch_size: 128\n'],
    ['checkpoints/epoch-040.pt', 'x'.repeat(40_000)],
    ['report.md', '# Results\n\n93.1 % on the test set.\n'],
  ] as const) {
    await upload(`upload-asset?fileName=${encodeURIComponent(name)}&`, text)
  }
  const from = Date.now() - minutes * 60_000
  await write('set-start-end-time', { startTimeMillis: from, endTimeMillis: from + minutes * 60_000 })
  for (let minute = 0; minute < minutes; minute++) {
    const at = { timestamp: from + minute * 60_000, step: minute }
    const busy = 0.9 + 0.08 * Math.sin(minute / 3)
    await write('cpu-metrics', {
      ...at,
      cpuPercentUtilization: [60 + 20 * Math.sin(minute / 5), 45 + 25 * Math.cos(minute / 7)],
    })
    await write('ram-metrics', { ...at, totalRam: 64e9, usedRam: 21e9 + minute * 50_000_000 })
    await write('load-metrics', { ...at, loadAverage: 3 + Math.sin(minute / 4) })
    await write('gpu-metrics', {
      ...at,
      gpus: [0, 1].map((gpuId) => ({
        gpuId,
        totalMemory: 80e9,
        usedMemory: 61e9 + gpuId * 4e9,
        freeMemory: 19e9 - gpuId * 4e9,
        gpuUtilization: Math.round(100 * busy) - gpuId * 3,
      })),
    })
  }
  await client.post('/write/project/notes', { projectId, notes: projectNotes })
}

const code = `import torch
from torchvision.models import resnet18


def train(lr: float, epochs: int) -> None:
    model = resnet18(num_classes=10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for epoch in range(epochs):
        for images, labels in loader():
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


train(lr=0.1, epochs=40)  # the learning rate of the paper
`
const patch = `diff --git a/train.py b/train.py
--- a/train.py
+++ b/train.py
@@ -5,3 +5,3 @@ def train(lr: float, epochs: int) -> None:
     model = resnet18(num_classes=10)
-    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
+    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
     for epoch in range(epochs):
`
const graph = JSON.stringify(
  {
    layers: [
      { name: 'conv1', out: 64 },
      { name: 'layer1', out: 64 },
      { name: 'fc', out: 10 },
    ],
  },
  null,
  2,
)
const notes = `## What we learned

The rate of the paper is **too high** for AdamW: loss spikes at epoch 12.

- [x] repeat with 0.03
- [ ] longer warm-up

| rate | accuracy |
| ---- | -------: |
| 0.1  | 91.2 %   |
| 0.03 | 93.1 %   |
`
const projectNotes = `# CIFAR-10 sweep

Which optimizer, and at which rate? Three seeds each.

1. AdamW at 0.03 is best so far.
2. Lion needs a tenth of it.
`
