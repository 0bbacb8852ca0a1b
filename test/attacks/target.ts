import { eventually } from '../kit/eventually.ts'
import type { TestClient } from '../kit/http/client.ts'
import type { Schema } from './values.ts'

/** One thing that an attacker may do. Answers what went wrong for us; undefined when the service held. */
export type Attack = { name: string; run(): Promise<string | undefined> }

/**
 * Attacks of one kind. `finish` looks afterwards at what all of them left behind. The short form tries every attack, or one in
 * `oneIn` where there are many alike.
 */
export type AttackClass = { name: string; attacks: Attack[]; oneIn?: number; finish?(): Promise<string[]> }

/** Whom the attacks are against. */
export type Target = {
  url: string
  apiKey: string
  client: TestClient
  /** A workspace, a project and an experiment that are there. */
  workspaceName: string
  projectName: string
  projectId: string
  experimentKey: string
  /** A user of the same organization who may not see the workspace. */
  stranger: Caller
  /** A user of another organization. */
  outsider: Caller
  /** The document of `/openapi.json`. */
  document: OpenApi
  /** A server on this machine that nothing may call. */
  canary: Canary
  /** Identity providers that lead to the canary, by their ids. */
  providers: string[]
}

type Caller = { apiKey: string; client: TestClient; workspaceName: string }

export type Canary = { port: number; hits(): string[] }

type Operation = {
  security?: Record<string, unknown>[]
  parameters?: { name: string; in: string; required: boolean; schema: Schema }[]
  requestBody?: { content: Record<string, { schema: Schema }> }
}
export type OpenApi = { paths: Record<string, Record<string, Operation>> }

/** The names of all metrics of an experiment, once everything accepted until now is stored. */
export async function readMetricNames({ client }: Target, experimentKey: string): Promise<string[]> {
  const last = `last-${Math.random().toString(36).slice(2)}`
  await client.post('/write/experiment/metric', { experimentKey, metricName: last, metricValue: 1 })
  return await eventually(async () => {
    const { body } = await client.get(`/experiment/metrics/summary?experimentKey=${experimentKey}`)
    const names = (body.values as { name: string }[]).map((it) => it.name)
    if (!names.includes(last)) throw new Error('not everything is stored yet')
    return names.filter((it) => it !== last)
  })
}
