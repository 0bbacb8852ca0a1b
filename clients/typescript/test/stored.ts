import { expect } from 'vitest'
import { eventually } from '../../../test/kit/eventually.ts'
import type { TestClient } from '../../../test/kit/http/client.ts'
import type { ConnectionOptions, Log } from '../src/node/index.ts'

/** What was logged for people. */
export function createTestLog() {
  const lines: string[] = []
  const add = (message: string) => void lines.push(message)
  return { lines, error: add, warn: add, info: add } satisfies Log & { lines: string[] }
}

type Service = { url: string; apiKey: string; workspaceName: string }

export function connectionTo({ url, apiKey, workspaceName }: Service, log: Log = createTestLog()): ConnectionOptions {
  return { url, apiKey, workspaceName, log }
}

type ReadEvent = { timestamp: number; labelsTimestamp: number; modelVersion: string; [part: string]: unknown }
type ReadScalars = { name: string; type: string; value: unknown }[]

/** Waits until an event is stored like this; features, prediction and labels as `[type, value]` by name. */
export async function expectEvent(
  client: TestClient,
  { workspaceName, modelName, predictionId }: { workspaceName: string; modelName: string; predictionId: string },
  want: Record<string, unknown>,
) {
  const query = new URLSearchParams({ workspaceName, modelName, predictionId })
  await eventually(async () => {
    const answer = await client.get(`/mpm/v2/event?${query}`)
    if (answer.status !== 200) throw new Error(answer.text)
    const event = answer.body as ReadEvent
    for (const part of ['features', 'prediction', 'labels']) {
      const scalars = event[part] as ReadScalars
      event[part] = Object.fromEntries(scalars.map(({ name, type, value }) => [name, [type, value]]))
    }
    expect(event).toMatchObject(want)
    // `toMatchObject` would let values pass that nobody logged.
    for (const part of ['features', 'prediction', 'labels']) if (want[part]) expect(event[part]).toEqual(want[part])
  })
}

/** Waits until so many events and sets of labels of a model are stored, of all its versions. */
export async function expectCounts(
  client: TestClient,
  { workspaceName, modelName }: { workspaceName: string; modelName: string },
  want: { events?: number; labels?: number; trainingEvents?: number },
) {
  const query = new URLSearchParams({ workspaceName, modelName })
  await eventually(async () => {
    const { body } = await client.get(`/mpm/v2/models?${query}`)
    const models = body.models as { versions: Record<'events' | 'labels' | 'trainingEvents', number>[] }[]
    const counts = { events: 0, labels: 0, trainingEvents: 0 }
    for (const version of models.flatMap((it) => it.versions)) {
      for (const kind of ['events', 'labels', 'trainingEvents'] as const) counts[kind] += version[kind]
    }
    expect(counts).toEqual({ events: 0, labels: 0, trainingEvents: 0, ...want })
  }, 60_000)
}
