import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { eventually } from '../../test/kit/eventually.ts'
import { given } from './given.ts'

const prometheus = given('SVC_REHEARSAL_PROMETHEUS')

async function ask<T>(path: string, query: Record<string, string> = {}): Promise<T> {
  const answer = await fetch(`${prometheus}/api/v1/${path}?${new URLSearchParams(query)}`)
  const { status, data, error } = (await answer.json()) as { status: string; data: T; error?: string }
  if (status !== 'success') throw new Error(`${query.query ?? path}: ${error}`)
  return data
}

it('every role is found by its name and answers with its metrics', async () => {
  type Target = { labels: Record<string, string>; health: string; lastError: string }
  await eventually(async () => {
    const { activeTargets } = await ask<{ activeTargets: Target[] }>('targets')
    const roles = activeTargets.filter((it) => it.labels.job === 'svc')
    expect(roles.map((it) => [it.labels.service, it.health, it.lastError]).sort()).toEqual([
      ['api', 'up', ''],
      ['ingest', 'up', ''],
      ['worker', 'up', ''],
    ])
  }, 90_000)
})

it('every rule is loaded and can be evaluated', async () => {
  type Rule = { name: string; health: string; lastError?: string }
  await eventually(async () => {
    const { groups } = await ask<{ groups: { rules: Rule[] }[] }>('rules')
    const rules = groups.flatMap((it) => it.rules)
    expect(rules.length).toBeGreaterThan(5)
    expect(rules.filter((it) => it.health !== 'ok')).toEqual([])
  }, 90_000)
})

it('every panel of the dashboard has queries that Prometheus understands', async () => {
  const text = await readFile(new URL('../helm/svc/files/dashboard.json', import.meta.url), 'utf8')
  const queries: string[] = []
  JSON.parse(text, (key, value) => {
    if (key === 'expr' && typeof value === 'string') queries.push(value)
    return value
  })
  expect(queries.length).toBeGreaterThan(5)
  const variables: Record<string, string> = { __rate_interval: '1m', __interval: '15s', __range: '1h' }
  for (const query of queries) {
    await ask('query', { query: query.replaceAll(/\$\{?(\w+)\}?/g, (_, name) => variables[name] ?? '.*') })
  }
})
