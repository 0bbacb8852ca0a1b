import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { eventually } from '../../kit/eventually.ts'
import { expectPlainFailure } from '../../kit/processes/expect.ts'
import { aFolder, runSvc, startUp, svc, type Up } from '../../kit/processes/svc.ts'

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)

describe('svc demo against a running service', () => {
  let up: Up
  beforeAll(async () => {
    up = await startUp(await aFolder(onClose), {}, onClose)
  })
  afterAll(async () => {
    for (const close of closers.splice(0).toReversed()) await close()
  })

  it('reads back all that it logged and ends with exit code 0', async () => {
    const args = ['demo', '--url', up.url, '--key', up.key as string, '--epochs', '2', '--json']

    const { code, stdout, stderr } = await svc(args, {}, onClose)

    expect(stderr).toBe('')
    const { experiments, ...report } = JSON.parse(stdout)
    expect(experiments.map((it: { mismatches: string[] }) => it.mismatches)).toEqual([[], []])
    expect({ code, ...report }).toMatchObject({ code: 0, ok: true, epochs: 2, workspaceName: 'default' })
  })

  it('finds the service and the key in the settings of the service too, and prints no control codes without a terminal', async () => {
    const env = { SVC_PORT: new URL(up.url).port, SVC_API_KEY: up.key as string }

    const { code, stdout } = await svc(['demo', '--epochs', '1'], env, onClose)

    expect(code).toBe(0)
    expect(stdout).toContain(`logging to ${up.url}`)
    expect(stdout).toContain('Everything logged was read back')
    expect(stdout).not.toMatch(/(?!\n)\p{Cc}/u)
  })

  it('says that the key is not known', async () => {
    const outcome = await svc(['demo', '--url', up.url, '--key', 'another-key-than-mine'], {}, onClose)

    expectPlainFailure(outcome, /does not know this API key \(HTTP 401\)\. Pass a valid one with --key/)
    expect(outcome.stderr).not.toContain('another-key-than-mine')
  })

  it('stops on Ctrl-C, and says that what was logged is kept', async () => {
    const args = ['demo', '--url', up.url, '--key', up.key as string, '--epochs', '5000']
    const demo = runSvc(args, {}, onClose)
    await eventually(() => expect(demo.stdout()).toContain('Training on'))

    demo.kill('SIGINT')

    const { code } = await demo.ended
    expectPlainFailure({ code, stdout: demo.stdout(), stderr: demo.stderr() }, /interrupted: the service keeps/)
  })
})

describe('svc demo says what it needs', () => {
  it('when no service answers', async () => {
    const url = `http://127.0.0.1:${await findFreePort()}`

    const outcome = await svc(['demo', '--url', url, '--key', 'some-key-or-other'], {}, onClose)

    expectPlainFailure(outcome, new RegExp(`${url}.*npm start`, 's'))
  })

  it.each([
    ['without a key', ['demo'], /the API key is missing.*--key KEY/],
    ['when the address is none', ['demo', '--key', 'k', '--url', 'nowhere'], /"nowhere" is not a URL/],
    [
      'when a number is none',
      ['demo', '--key', 'k', '--epochs', 'many'],
      /--epochs must be a whole number, not "many"/,
    ],
  ])('%s', async (_what, args, said) => {
    expectPlainFailure(await svc(args, {}, onClose), said)
  })
})

it('a demo that is not there is refused with the names of those that are', async () => {
  const outcome = await svc(['demo', 'nothing', '--key', 'k'], {}, onClose)
  expectPlainFailure(outcome, /there is no demo "nothing": "svc demo" or "svc demo production"/)
})
