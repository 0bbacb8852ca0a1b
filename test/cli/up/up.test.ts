import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { aPoint } from '../../kit/builders.ts'
import { eventually } from '../../kit/eventually.ts'
import {
  aFolder,
  clientOf,
  enginesOn,
  expectEnded,
  expectPlainFailure,
  type Running,
  runCommand,
  snippet,
  startUp,
  svc,
  type Up,
} from '../../kit/processes/svc.ts'

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

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
    expect(banner).toMatch(/API key {6}svc_[0-9A-Za-z]{49} {2}\(shown this once: keep it\)\n/)
    expect(banner).toContain('Stop         Ctrl-C')
    expect(banner).not.toMatch(/[\x00-\x09\x0b-\x1f]/)
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

  it('prints a Python snippet that works as it is pasted', async () => {
    if (spawnSync('python3', ['--version']).status !== 0) {
      console.warn('The Python snippet was not run: there is no python3 on the PATH.')
      return
    }
    const python = runCommand('python3', ['-c', snippet(up.stdout(), 'Or from Python')], {}, onClose)

    expect(await python.ended, python.stderr()).toMatchObject({ code: 0 })
    expect(python.stdout()).toContain("'accepted': 100")
    expect(python.stdout()).toMatch(/'name': 'loss', 'valueMin': '0.01',.*'valueMax': '1'/)
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

  it('takes the key that was chosen, and does not print it', async () => {
    const up = await startUp(await aFolder(onClose), { SVC_BOOTSTRAP_API_KEY: givenKey }, onClose)

    expect(up.stdout()).toContain('API key      as set in SVC_BOOTSTRAP_API_KEY\n')
    expect(up.stdout()).not.toContain(givenKey)
    expect(up.stdout()).not.toContain('svc_')
    expect((await clientOf(up, givenKey).get('/account-details')).status).toBe(200)
    const given = { SVC_BOOTSTRAP_API_KEY: givenKey }
    const shell = runCommand('bash', ['-c', snippet(up.stdout(), 'Log a first point')], given, onClose)
    expect(await shell.ended).toMatchObject({ code: 0 })
    expect(shell.stdout()).toContain('"metricValue":"0.25"')
  })

  it('reads .env where it stands, and the environment goes before it', async () => {
    const folder = await aFolder(onClose)
    writeFileSync(
      path.join(folder, '.env'),
      `SVC_BOOTSTRAP_API_KEY=${givenKey}\nSVC_PORT=1\nSVC_DATA_DIR=from-env-file\n`,
    )
    const port = await findFreePort()
    const dataFolder = path.join(folder, 'from-environment')
    const up = await startUp(dataFolder, { SVC_PORT: String(port) }, onClose, { cwd: folder })

    expect(up.stdout()).toContain(`Data folder  ${dataFolder}\n`)
    expect((await clientOf({ url: `http://127.0.0.1:${port}` }, givenKey).get('/account-details')).status).toBe(200)
  })
})

describe('a second start', () => {
  it('finds everything as it was, and prints no key', async () => {
    const folder = await aFolder(onClose)
    const first = await startUp(folder, {}, onClose)
    const experimentKey = await clientOf(first, first.key).createExperiment()
    const batch = { experimentKey, metrics: [1, 2, 3].map((step) => aPoint({ step })) }
    expect((await clientOf(first, first.key).post('/write/experiment/metrics/batch', batch)).status).toBe(200)
    first.kill('SIGTERM')
    expect(await first.ended).toEqual({ code: 0, signal: null })

    const second = await startUp(folder, {}, onClose)

    expect(second.key).toBeUndefined()
    expect(second.stdout()).toContain('API key      as printed at the first start (lost?')
    expect(second.stdout()).not.toContain('svc_')
    const points = await clientOf(second, first.key).readPoints(experimentKey, 'loss', 3)
    expect(points.map((it) => it.step)).toEqual([1, 2, 3])
  })
})

describe('the end', () => {
  it.each(['SIGTERM', 'SIGINT'] as const)(
    'on %s is in order: exit code 0, nothing left running, nothing lost',
    async (signal) => {
      const folder = await aFolder(onClose)
      const up = await startUp(folder, {}, onClose)
      const engines = enginesOn(folder)
      const experimentKey = await logThousand(up)

      up.kill(signal)

      expect(await up.ended).toEqual({ code: 0, signal: null })
      expectEnded(engines)
      expect(up.stdout()).toMatch(/Stopping: .*\nStopped\.\n$/)
      expect(up.stderr()).toBe('')
      const again = await startUp(folder, {}, onClose)
      await clientOf(again, up.key).readPoints(experimentKey, 'loss', 1000)
    },
  )

  it('on Ctrl-C, which the terminal sends to every process of the group, is in order too', async () => {
    const folder = await aFolder(onClose)
    const up = await startUp(folder, {}, onClose, { detached: true })
    const engines = enginesOn(folder)

    process.kill(-up.pid, 'SIGINT')
    // npm passes the signal on, so it comes twice.
    up.kill('SIGINT')

    expect(await up.ended).toEqual({ code: 0, signal: null })
    expectEnded(engines)
    expect(up.stdout()).toMatch(/Stopped\.\n$/)
  })

  it('comes within SVC_DRAIN_SECONDS, also when a client never finishes its request', async () => {
    const folder = await aFolder(onClose)
    const up = await startUp(folder, { SVC_DRAIN_SECONDS: '1' }, onClose)
    const engines = enginesOn(folder)
    const experimentKey = await logThousand(up)
    const stuck = fetch(`${up.url}/api/rest/v2/write/experiment/metric`, {
      method: 'POST',
      headers: { authorization: up.key as string, 'content-type': 'application/json' },
      body: new ReadableStream({ start: (body) => body.enqueue(new TextEncoder().encode('{"experimentKey": ')) }),
      duplex: 'half',
    } as RequestInit).catch(() => 'ended')
    // An answer to a later request says that the server has seen the earlier one.
    await clientOf(up, up.key).get('/account-details')

    up.kill('SIGTERM')

    expect(await up.ended).toEqual({ code: 1, signal: null })
    expect(await stuck).toBe('ended')
    await eventually(() => expectEnded(engines))
    const again = await startUp(folder, {}, onClose)
    await clientOf(again, up.key).readPoints(experimentKey, 'loss', 1000)
  })

  it('by SIGKILL leaves no engine behind, and the next start has all that was acknowledged', async () => {
    const folder = await aFolder(onClose)
    const up = await startUp(folder, {}, onClose)
    const engines = enginesOn(folder)
    const experimentKey = await logThousand(up)

    up.kill('SIGKILL')

    expect(await up.ended).toEqual({ code: null, signal: 'SIGKILL' })
    await eventually(() => expectEnded(engines))
    const again = await startUp(folder, {}, onClose)
    await clientOf(again, up.key).readPoints(experimentKey, 'loss', 1000)
  })

  it('by SIGKILL is no hindrance to a start right after it, while engines are still ending', async () => {
    const folder = await aFolder(onClose)
    const up = await startUp(folder, {}, onClose)
    const experimentKey = await logThousand(up)
    up.kill('SIGKILL')

    const again = await startUp(folder, {}, onClose)

    await clientOf(again, up.key).readPoints(experimentKey, 'loss', 1000)
  })

  it('by closing the terminal is in order too', async () => {
    const folder = await aFolder(onClose)
    const terminal = await startInTerminal(folder)
    if (!terminal) return
    const engines = enginesOn(folder)

    terminal.kill('SIGKILL')

    await eventually(() => expectEnded(engines))
    // Only who has drained gives the folder back.
    await eventually(() => expect(existsSync(path.join(folder, 'lock'))).toBe(false))
  })
})

it.each(['clickhouse', 'postgres'] as const)(
  '%s, killed under a running service, comes back by itself',
  async (engine) => {
    const folder = await aFolder(onClose)
    const up = await startUp(folder, { SVC_LOG_LEVEL: 'silent' }, onClose)
    const experimentKey = await logThousand(up)
    const killed = enginesOn(folder)[engine]

    process.kill(killed, 'SIGKILL')

    // Each point is sent until it is acknowledged, as a client would; then it must be readable.
    const client = clientOf(up, up.key)
    await eventually(async () => {
      const answer = await client.post('/write/experiment/metric', {
        experimentKey,
        ...aPoint({ metricName: 'after' }),
      })
      expect(answer.status, answer.text).toBe(200)
    })
    await eventually(async () => expect(await client.readMetric(experimentKey, 'after')).not.toHaveLength(0))
    await eventually(async () => expect(await client.readMetric(experimentKey, 'loss')).toHaveLength(1000))
    expect(enginesOn(folder)[engine]).not.toBe(killed)
    up.kill('SIGTERM')
    expect(await up.ended).toEqual({ code: 0, signal: null })
  },
)

it('in a terminal it shows each step while it works on it', async () => {
  const terminal = await startInTerminal(await aFolder(onClose))
  if (!terminal) return

  expect(terminal.stdout()).toContain('ClickHouse ...')
  expect(terminal.stdout()).toContain('\u001b[32m✓\u001b[39m ClickHouse')
  const service = Number(execFileSync('pgrep', ['-P', String(terminal.pid)], { encoding: 'utf8' }).trim())
  process.kill(service, 'SIGTERM')
  await terminal.ended
  expect(terminal.stdout()).toContain('Stopped.')
})

/** `svc up` in a terminal of its own; undefined, and told, where there is no program to make one. */
async function startInTerminal(folder: string): Promise<Running | undefined> {
  if (spawnSync('script', ['--version']).status !== 0) {
    console.warn('The terminal was not tried: there is no program "script" of util-linux on the PATH.')
    return undefined
  }
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
