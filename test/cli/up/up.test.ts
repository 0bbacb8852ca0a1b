import { spawnSync } from 'node:child_process'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { findBrowser } from '../../../cli/terminal/browser.ts'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import { expectEnded, expectPlainFailure, snippet } from '../../kit/processes/expect.ts'
import { nicenessOf } from '../../kit/processes/niceness.ts'
import type { RunningProcess } from '../../kit/processes/process.ts'
import { aFolder, clientOf, enginesOn, runCommand, startUp, svc, type Up } from '../../kit/processes/svc.ts'

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

const hasScript = spawnSync('script', ['--version']).status === 0
if (!hasScript) console.warn('The terminal is not tried: there is no program "script" of util-linux on the PATH.')

const givenKey = 'a-key-that-someone-has-chosen'

describe('a first start', () => {
  const closeAfterAll: (() => unknown)[] = []
  let folder: string
  let up: Up
  beforeAll(async () => {
    const later = (close: () => unknown) => void closeAfterAll.push(close)
    folder = await aFolder(later)
    up = await startUp(folder, {}, later)
  })
  afterAll(async () => {
    for (const close of closeAfterAll.splice(0).toReversed()) await close()
  })

  it('tells address, data folder, key and how to stop, without control codes when it is not a terminal', async () => {
    const banner = up.stdout()

    for (const step of ['Postgres', 'ClickHouse', 'Schema', 'Service']) expect(banner).toContain(`✓ ${step}`)
    expect(banner).toContain(`Address      ${up.url}\n`)
    expect(banner).toContain(`Reference    ${up.url}/reference\n`)
    expect(banner).toContain(`Data folder  ${folder}\n`)
    expect(banner).toMatch(/API key {6}svc_[0-9A-Za-z]{49} {2}\(shown only once: keep it\)\n/)
    expect(banner).toContain('Stop         Ctrl-C')
    expect(banner).not.toMatch(/(?!\n)\p{Cc}/u)
    expect(banner.split('\n').length).toBeLessThan(50)
    expect(up.stderr()).toBe('')
    expect((await clientOf(up, up.key).get('/account-details')).status).toBe(200)
  })

  it('prints a shell snippet that works as it is pasted', async () => {
    const shell = runCommand('bash', ['-c', snippet(up.stdout(), 'Log a first point')], {}, onClose)

    expect(await shell.ended).toMatchObject({ code: 0 })
    expect(shell.stderr()).toBe('')
    expect(shell.stdout()).toContain('"msg":"Saved"')
    expect(shell.stdout()).toMatch(/"metricName":"loss","metricValue":"0.25",.*"step":1,/)
  })

  it.skipIf(nicenessOf('self') === undefined)('lets what acknowledges writes go before ClickHouse', () => {
    const { clickhouse, postgres } = enginesOn(folder)

    expect([nicenessOf(clickhouse), nicenessOf(postgres)]).toEqual([5, 0])
  })

  // The tests of the Python clients paste it.
  it('prints a Python snippet of four lines with the address and the key', () => {
    const python = snippet(up.stdout(), 'Or from Python')

    expect(python.trimEnd().split('\n')).toEqual([
      'from svc_ml import Experiment',
      `with Experiment(url="${up.url}", api_key="${up.key}", project_name="first") as experiment:`,
      '    for step in range(1, 101):',
      '        experiment.log_metric("loss", 1 / step, step=step)',
    ])
  })

  it('is reached by the commands that look after its stores, by its data folder alone', async () => {
    const env = { SVC_DATA_DIR: folder }

    const added = await svc(['users', 'add', 'ada'], env, onClose)
    expect(added).toMatchObject({ code: 0, stderr: '' })
    const key = /svc_[0-9A-Za-z]{49}/.exec(added.stdout)?.[0] as string
    expect((await clientOf(up, key).get('/account-details')).body.userName).toBe('ada')
    expect((await svc(['dead-letters', 'list'], env, onClose)).stdout).toBe('There are no dead letters.\n')
    expect(statSync(path.join(folder, 'stores')).mode & 0o777).toBe(0o600)

    const nobody = { SVC_DATA_DIR: await aFolder(onClose) }
    expectPlainFailure(
      await svc(['users', 'list'], nobody, onClose),
      /POSTGRES_URL: must be set, or "svc up" must be running on the data folder/,
    )
  })

  it('prints a link that signs in once, and so does svc sign-in-link, for any user', async () => {
    const printed = / {2}Open {9}(\S+) {2}\(signs in once, within ten minutes\)\n/.exec(up.stdout())?.[1] as string
    const env = { SVC_DATA_DIR: folder, SVC_PUBLIC_URL: up.url }
    const made = await svc(['sign-in-link'], env, onClose)
    expect(made).toMatchObject({ code: 0, stderr: '' })
    const open = (link = '') => fetch(link, { redirect: 'manual' })
    for (const link of [printed, made.stdout.split('\n')[0]]) {
      expect((await open(link)).headers.get('set-cookie')).toContain('HttpOnly')
      expect((await open(link)).headers.get('location')).toContain('link-used')
    }
    expectPlainFailure(await svc(['sign-in-link', 'nobody'], env, onClose), /There is no user "nobody"/)
  })

  it('opens a browser only where somebody sees it', () => {
    const screen = { input: { isTTY: true }, out: { isTTY: true } as never, env: { DISPLAY: ':0' }, platform: 'linux' }
    const find = (it: object) => findBrowser({ ...screen, ...it } as Parameters<typeof findBrowser>[0])
    expect(find({})).toEqual(['xdg-open'])
    expect(find({ env: {}, platform: 'darwin' })).toEqual(['open'])
    const nobody = { CI: 'true' }
    for (const it of [{ env: {} }, { env: { DISPLAY: ':0', ...nobody } }, { input: {} }, { out: {} }]) {
      expect(find(it)).toBeUndefined()
    }
    expect(find({ env: { DISPLAY: ':10', SSH_CONNECTION: 'a' } })).toBeUndefined()
  })

  it('keeps its data folder: a second process on it says who has it', async () => {
    const outcome = await svc(['up'], { SVC_PORT: String(await findFreePort()), SVC_DATA_DIR: folder }, onClose)

    expectPlainFailure(outcome, new RegExp(`data folder ${folder} is in use by process ${up.pid}`))
    expect((await clientOf(up, up.key).get('/account-details')).status).toBe(200)
  })

  it('reads .env where it stands, the environment goes before it, and a key that was chosen is not printed', async () => {
    const folder = await aFolder(onClose)
    writeFileSync(
      path.join(folder, '.env'),
      `SVC_BOOTSTRAP_API_KEY=${givenKey}\nSVC_PORT=1\nSVC_DATA_DIR=from-env-file\n`,
    )
    const port = await findFreePort()
    const dataFolder = path.join(folder, 'from-environment')
    const up = await startUp(dataFolder, { SVC_PORT: String(port) }, onClose, { cwd: folder })

    expect(up.stdout()).toContain(`Data folder  ${dataFolder}\n`)
    expect(up.stdout()).toContain('API key      as set in SVC_BOOTSTRAP_API_KEY\n')
    expect(up.stdout()).not.toContain(givenKey)
    expect(up.stdout()).not.toMatch(/svc_(?!ml\b)/)
    expect((await clientOf({ url: `http://127.0.0.1:${port}` }, givenKey).get('/account-details')).status).toBe(200)
    const given = { SVC_BOOTSTRAP_API_KEY: givenKey }
    const shell = runCommand('bash', ['-c', snippet(up.stdout(), 'Log a first point')], given, onClose)
    expect(await shell.ended).toMatchObject({ code: 0 })
    expect(shell.stdout()).toContain('"metricValue":"0.25"')
  })
})

describe('the end', () => {
  it('is in order on SIGTERM and on Ctrl-C, leaves no engine behind on SIGKILL and when it takes too long, and each next start has all there was', async () => {
    const folder = await aFolder(onClose)
    const onSigterm = await startUp(folder, {}, onClose)
    const { key } = onSigterm
    const logged: string[] = []
    const expectAll = async (up: Up) => {
      for (const it of logged) await clientOf(up, key).readPoints(it, 'loss', 1000)
    }
    const log = async (up: Up) => void logged.push(await logThousand({ url: up.url, key }))

    let engines = enginesOn(folder)
    await log(onSigterm)
    onSigterm.kill('SIGTERM')
    expect(await onSigterm.ended).toEqual({ code: 0, signal: null })
    expectEnded(engines)
    expect(onSigterm.stdout()).toMatch(/Stopping: .*\nStopped\.\n$/)
    expect(onSigterm.stderr()).toBe('')

    const onInterrupt = await startUp(folder, {}, onClose, { detached: true })
    expect(onInterrupt.key).toBeUndefined()
    expect(onInterrupt.stdout()).toContain('API key      as printed at the first start (lost?')
    expect(onInterrupt.stdout()).not.toMatch(/svc_(?!ml\b)/)
    await expectAll(onInterrupt)
    engines = enginesOn(folder)
    await log(onInterrupt)
    // The terminal sends it to every process of the group, and npm passes it on, so it comes twice.
    process.kill(-onInterrupt.pid, 'SIGINT')
    onInterrupt.kill('SIGINT')
    expect(await onInterrupt.ended).toEqual({ code: 0, signal: null })
    expectEnded(engines)
    expect(onInterrupt.stdout()).toMatch(/Stopped\.\n$/)

    const killed = await startUp(folder, {}, onClose)
    await expectAll(killed)
    const left = enginesOn(folder)
    await log(killed)
    killed.kill('SIGKILL')
    // Engines are still ending.
    const stuck = await startUp(folder, { SVC_DRAIN_SECONDS: '1' }, onClose)
    expect(await killed.ended).toEqual({ code: null, signal: 'SIGKILL' })
    await eventually(() => expectEnded(left))
    await expectAll(stuck)

    engines = enginesOn(folder)
    await log(stuck)
    const neverFinished = fetch(`${stuck.url}/api/rest/v2/write/experiment/metric`, {
      method: 'POST',
      headers: { authorization: key as string, 'content-type': 'application/json' },
      body: new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode('{"experimentKey": ')) }),
      duplex: 'half',
    } as RequestInit).catch(() => 'ended')
    // An answer to a later request says that the server has seen the earlier one.
    await clientOf(stuck, key).get('/account-details')
    stuck.kill('SIGTERM')
    expect(await stuck.ended).toEqual({ code: 1, signal: null })
    expect(await neverFinished).toBe('ended')
    await eventually(() => expectEnded(engines))

    await expectAll(await startUp(folder, {}, onClose))
  })

  it.skipIf(!hasScript)('by closing the terminal is in order too, in which each step was shown', async () => {
    const folder = await aFolder(onClose)
    const terminal = await startInTerminal(folder)
    const engines = enginesOn(folder)
    expect(terminal.stdout()).toContain('ClickHouse ...')
    expect(terminal.stdout()).toContain('\u001b[32m✓\u001b[39m ClickHouse')

    terminal.kill('SIGKILL')

    await eventually(() => expectEnded(engines))
    // Only who has drained gives the folder back.
    await eventually(() => expect(existsSync(path.join(folder, 'lock'))).toBe(false))
  })
})

it('an engine that is killed under a running service comes back by itself, and the end is in order', async () => {
  const folder = await aFolder(onClose)
  const up = await startUp(folder, { SVC_LOG_LEVEL: 'silent' }, onClose)
  const experimentKey = await logThousand(up)
  const client = clientOf(up, up.key)
  for (const engine of ['clickhouse', 'postgres'] as const) {
    const killed = enginesOn(folder)[engine]

    process.kill(killed, 'SIGKILL')

    // Each point is sent until it is acknowledged, as a client would; then it must be readable.
    const metricName = `after ${engine}`
    await eventually(async () => {
      const answer = await client.post('/write/experiment/metric', { experimentKey, ...aPoint({ metricName }) })
      expect(answer.status, answer.text).toBe(200)
    })
    await eventually(async () => expect(await client.readMetric(experimentKey, metricName)).not.toHaveLength(0))
    await eventually(async () => expect(await client.readMetric(experimentKey, 'loss')).toHaveLength(1000))
    await eventually(() => expect(enginesOn(folder)[engine]).not.toBe(killed))
  }
  up.kill('SIGTERM')
  expect(await up.ended).toEqual({ code: 0, signal: null })
})

/** `svc up` in a terminal of its own. */
async function startInTerminal(folder: string): Promise<RunningProcess> {
  const env = { SVC_PORT: String(await findFreePort()), SVC_DATA_DIR: folder, TERM: 'xterm' }
  const command = `exec ${process.execPath} ${path.resolve('cli/svc.ts')} up`
  const terminal = runCommand('script', ['-qec', command, '/dev/null'], env, onClose)
  await eventually(() => expect(terminal.stdout()).toContain('npm run demo'))
  return terminal
}

/** A batch of 1,000 points that has been acknowledged. */
async function logThousand(up: { url: string; key: string | undefined }): Promise<string> {
  const client = clientOf(up, up.key)
  const experimentKey = await client.createExperiment()
  const metrics = Array.from({ length: 1000 }, (_, step) => aPoint({ step }))
  const answer = await client.post('/write/experiment/metrics/batch', { experimentKey, metrics })
  expect(answer.status, answer.text).toBe(200)
  return experimentKey
}
