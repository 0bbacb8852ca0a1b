import type { StoreUrls } from '../../cli/settings.ts'
import type { Closers } from '../../runtime/closers.ts'
import { createClient } from '../kit/http/client.ts'
import { toStoreSettings } from '../kit/processes/svc.ts'
import { startWatchedService, type WatchedService } from '../kit/processes/watched-service.ts'
import { createUser } from '../kit/service.ts'
import { memoryBytesMax } from '../malformed/run.ts'
import { openCanary, openProvider } from './canary.ts'
import { createClasses } from './classes.ts'
import { startProxies } from './proxies.ts'
import type { Attack, AttackClass, OpenApi, Target } from './target.ts'

/** Tries what attackers use against a service in its own process, and reports what did not hold. */
type Settings = {
  /** Only classes whose name contains this text. */
  only: string
  /** Attacks that have not begun by then are reported as not tried. */
  secondsMax: number
  /** Of many alike only some. */
  isShort: boolean
  /** Their queue is in Postgres. */
  stores: StoreUrls
  closers: Closers
}

type ClassReport = { name: string; tried: number; held: number; seconds: number; faults: string[] }
export type Report = {
  classes: ClassReport[]
  seconds: number
  /** In front of the service. */
  proxies: string[]
  memoryPeak: number | undefined
  violations: string[]
}

const apiKey = 'svc_attacks_0123456789abcdef'
const atOnce = 8
/** Longer than any timeout of the service. */
const answerMsMax = 120_000

export async function runAttacks({ only, secondsMax, isShort, stores, closers }: Settings): Promise<Report> {
  const startedAt = performance.now()
  const canary = await openCanary(closers)
  const provider = await openProvider(canary, closers)
  const service = await startWatchedService(
    {
      SVC_BOOTSTRAP_API_KEY: apiKey,
      SVC_LOG_LEVEL: 'warn',
      SVC_POINTS_PER_MINUTE: '1000000000',
      SVC_KEY_POINTS_PER_MINUTE: '1000000000',
      SVC_VALUES_PER_MINUTE: '1000000000',
      SVC_EXPORTS_PER_USER_MAX: '100',
      SVC_PUBLIC_URL: 'https://svc.invalid',
      SVC_MASTER_KEY: Buffer.alloc(32, 7).toString('base64'),
      SVC_SSO: JSON.stringify(provider.document),
      SVC_SSO_PRIVATE_HOSTS: provider.host,
      PROXY_SECRET: 'a-secret-that-only-the-proxy-has',
      ...toStoreSettings(stores),
    },
    closers,
  )
  const proxies = await startProxies(service.url, closers)
  const target = await prepare(service.url, stores, { canary, providers: provider.ids })
  const classes = (await createClasses(target, proxies)).filter((it) => it.name.includes(only))
  const endsAt = startedAt + secondsMax * 1_000
  const reports: ClassReport[] = []
  for (const it of classes) {
    const attacks = it.attacks.filter((_, at) => !isShort || at % (it.oneIn ?? 1) === 0)
    reports.push(await runClass({ ...it, attacks }, endsAt, service))
  }

  const memory = await service.memory()
  const { code, signal } = await service.stop('SIGTERM')
  const violations = [
    classes.length === 0 && `no class of attacks has "${only}" in its name`,
    ...reports.flatMap((it) => it.faults.map((fault) => `${it.name}: ${fault}`)),
    ...service.errors().map((it) => `the service logged: ${it.slice(0, 500)}`),
    memory && memory.peak > memoryBytesMax && `the service took ${memory.peak} bytes of memory`,
    code !== 0 && `the service ended with ${signal ?? `exit code ${code}`} on SIGTERM`,
  ]
  return {
    classes: reports,
    seconds: (performance.now() - startedAt) / 1_000,
    proxies: proxies.map((it) => it.name),
    memoryPeak: memory?.peak,
    violations: violations.filter((it) => typeof it === 'string'),
  }
}

async function runClass(it: AttackClass, endsAt: number, service: WatchedService): Promise<ClassReport> {
  const startedAt = performance.now()
  const faults: string[] = []
  let tried = 0
  const waiting = it.attacks.values()
  const work = async () => {
    for (const attack of waiting) {
      if (performance.now() > endsAt) return
      tried++
      const fault = await runOne(attack)
      if (fault !== undefined) faults.push(`${attack.name}: ${fault}`)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  const held = tried - faults.length
  const left = it.attacks.length - tried
  if (left > 0) faults.push(`${left} of ${it.attacks.length} were not tried in time`)
  if (service.hasEnded()) faults.push('the service ended')
  else faults.push(...((await it.finish?.()) ?? []))
  return { name: it.name, tried, held, seconds: (performance.now() - startedAt) / 1_000, faults }
}

async function runOne({ run }: Attack): Promise<string | undefined> {
  const { promise, resolve } = Promise.withResolvers<string>()
  const timer = setTimeout(() => resolve('no answer in time'), answerMsMax)
  try {
    return await Promise.race([run(), promise])
  } catch (error) {
    return `failed: ${error instanceof Error ? `${error.message} ${error.cause ?? ''}` : error}`
  } finally {
    clearTimeout(timer)
  }
}

async function prepare(url: string, stores: StoreUrls, given: Pick<Target, 'canary' | 'providers'>): Promise<Target> {
  const workspaceName = 'default'
  const client = createClient(url, { apiKey, workspaceName })
  const post = async (path: string, body: object) => {
    const answer = await client.post(path, body)
    if (answer.status !== 200) throw new Error(`${path}: ${answer.text}`)
    return answer.body
  }
  const projectName = 'attacked'
  const fields = { workspaceName, projectName, projectDescription: '', isPublic: false }
  const { projectId } = await post('/write/project/create', fields)
  const experimentKey = await client.createExperiment({ projectName })
  const userName = 'stranger'
  await post('/admin/users', { userName })
  const made = await post('/admin/users/keys', { userName })
  const stranger = { apiKey: made.apiKey as string, workspaceName: userName }
  // Only an installation makes organizations.
  const outsider = await createUser(stores)
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as OpenApi
  return {
    ...given,
    ...{ url, apiKey, client, workspaceName, projectName, projectId: projectId as string, experimentKey, document },
    stranger: { ...stranger, client: createClient(url, stranger) },
    outsider: { ...outsider, client: createClient(url, outsider) },
  }
}
