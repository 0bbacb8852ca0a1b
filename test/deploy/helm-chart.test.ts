import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { version } from '../../cli/version.ts'
import { readChartFile } from '../kit/chart.ts'

const readRepositoryFile = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

it('the chart runs the version of svc in this repository', () => {
  expect(/^appVersion: (.*)$/m.exec(readChartFile('Chart.yaml'))?.[1]).toBe(version)
})

it('the README of the chart documents every value', () => {
  const values = [...readChartFile('values.yaml').matchAll(/^(\w+):/gm)].map(([, name]) => name as string)
  const ofRoles = [...readChartFile('values.yaml').matchAll(/^worker:\n((?: {2}.*\n)+)/gm)]
    .flatMap(([, block]) => [...(block as string).matchAll(/^ {2}(\w+):/gm)])
    .map(([, name]) => name as string)
  expect(values.length).toBeGreaterThan(20)
  expect(ofRoles).toContain('keda')
  const table = readChartFile('README.md').split('## Values')[1] as string
  expect([...values, ...ofRoles].filter((name) => !table.includes(`\`${name}\``))).toEqual([])
})

it('every setting in the chart and its examples exists', () => {
  const named = ['templates/_pods.tpl', 'templates/_stores.tpl', 'values.yaml', 'README.md']
    .concat(['1000-gpus', 'external-stores', 'single-node'].map((it) => `examples/${it}.yaml`))
    .flatMap((path) => [...readChartFile(path).matchAll(/\bSVC_[A-Z_]+\b/g)].map(([name]) => name))
  expect(new Set(named).size).toBeGreaterThan(5)
  const known = readRepositoryFile('cli/settings/schema.ts')
  expect([...new Set(named)].filter((name) => !known.includes(`  ${name}: `))).toEqual([])
})

it('no way from outside leads to the port of the metrics, unless a value asks for it', () => {
  expect(readChartFile('values.yaml')).toContain('\n  onMainPort: false\n')
  const pods = readChartFile('templates/_pods.tpl')
  expect(pods).toMatch(
    /if not \$root\.Values\.monitoring\.onMainPort \}\}\{\{ \$_ := set \$own "SVC_METRICS_PORT" "9464"/,
  )
  for (const path of ['ingress', 'http-route', 'services', '_routing'].map((it) => `templates/${it}`)) {
    const template = readChartFile(`${path}${path.endsWith('_routing') ? '.tpl' : '.yaml'}`)
    expect(template, path).not.toMatch(/9464|port: metrics|name: metrics|targetPort: metrics/)
  }
})
