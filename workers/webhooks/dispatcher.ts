import { randomUUID } from 'node:crypto'
import { type Failure, Undeliverable } from '../../http/outgoing/failure.ts'
import type { Secrets } from '../../store/postgres/accounts/secrets.ts'
import type { Database } from '../../store/postgres/database.ts'
import {
  type Attempt,
  claimReceiver,
  type DueDelivery,
  insertAttempt,
  listDueDeliveries,
  releaseReceiver,
} from '../../store/postgres/webhooks/deliveries.ts'
import { type DeliveryConfig, findDeliveryConfig } from '../../store/postgres/webhooks/delivery-config.ts'
import { testEvent } from '../../store/postgres/webhooks/outbox.ts'
import { nextAttemptMs, parseRetryAfter } from './schedule.ts'
import type { Send } from './sender.ts'
import { signMessage } from './signature.ts'

/**
 * Sends a receiver its due deliveries. The ordering key is the model version: a delivery is sent when all earlier ones of its
 * version are delivered. One that fails is repeated on the schedule and delays only its own version. A receiver that answers
 * 410 (gone), or fails the whole schedule, is disabled.
 */
type Settings = {
  database: Database
  secrets: Secrets
  send: Send
  /** The version of this program, for the receiver's log. */
  version: string
  now(): number
  random(): number
  onAttempt(outcome: 'delivered' | 'retried' | 'failed'): void
  onError(error: unknown, what: string): void
}

/** How many model versions of a receiver are sent at once, over all processes. */
const orderingKeysAtOnce = 4
/** How long a receiver may keep a job before others have their turn. */
const roundMsMax = 5_000

const gone = 410
const mayAskForTime = [429, 503]

export function createDispatcher(settings: Settings) {
  const { database, secrets, send, version, now, random, onAttempt, onError } = settings

  /**
   * Sends what is due to a receiver, unless another worker holds its lease. When `stop` is aborted it ends early and records
   * nothing for the attempts in progress.
   */
  async function serve(receiverId: string, stop: AbortSignal): Promise<void> {
    const holder = randomUUID()
    try {
      await serveWhile(receiverId, stop, () => claimReceiver(database, receiverId, holder))
    } finally {
      await releaseReceiver(database, receiverId, holder)
    }
  }

  async function serveWhile(receiverId: string, stop: AbortSignal, isHeld: () => Promise<boolean>): Promise<void> {
    const until = now() + roundMsMax
    while (!stop.aborted && now() < until && (await isHeld())) {
      const due = await listDueDeliveries(database, receiverId, now(), orderingKeysAtOnce)
      if (due.length === 0) return
      // Wait for all of them before the lease ends, or else its next holder would send beside them.
      const ended = await Promise.allSettled(due.map((delivery) => deliver(receiverId, delivery, stop)))
      const failed = ended.find((it) => it.status === 'rejected')
      if (failed) throw failed.reason
    }
  }

  async function deliver(receiverId: string, delivery: DueDelivery, stop: AbortSignal) {
    const atMs = now()
    const result = await attempt(receiverId, delivery, stop)
    if (result === 'stopped') return
    const nowMs = now()
    const { next, disable } = judge(delivery, result, nowMs)
    const { id: deliveryId, attempts } = delivery
    const kept: Attempt['result'] = 'status' in result ? { status: result.status } : { failure: result.failure }
    await insertAttempt(database, { receiverId, deliveryId, attempts, atMs, nowMs, result: kept, next, disable })
    onAttempt('state' in next ? next.state : 'retried')
  }

  type Result = { status: number; retryAfter: string | undefined } | { failure: Failure }

  async function attempt(receiverId: string, delivery: DueDelivery, stop: AbortSignal): Promise<Result | 'stopped'> {
    try {
      const deliveryConfig = await findDeliveryConfig({ queries: database, secrets }, receiverId, now()).catch(
        rethrowUnreadable,
      )
      if (!deliveryConfig) return 'stopped'
      const { messageId: id, payload: body } = delivery
      const headers = {
        'user-agent': `svc/${version}`,
        ...deliveryConfig.headers,
        ...(await findAuthorization(deliveryConfig)),
        'content-type': 'application/json',
        ...signMessage({ id, body, nowMs: now() }, deliveryConfig.signingSecrets),
      }
      return await send({ url: deliveryConfig.url, headers, body }, stop)
    } catch (error) {
      if (stop.aborted) return 'stopped'
      if (!(error instanceof Undeliverable)) throw error
      if (error.failure === 'secret unreadable') onError(error.cause, 'a secret of a webhook does not open')
      return { failure: error.failure }
    }
  }

  async function findAuthorization({
    organizationId,
    workspaceId,
    secretRef,
  }: DeliveryConfig): Promise<Record<string, string>> {
    if (secretRef === null) return {}
    const secret = await secrets.find(organizationId, secretRef, workspaceId).catch(rethrowUnreadable)
    if (secret === undefined) throw new Undeliverable('secret missing')
    // Node's error for a value that no header can hold would show the secret.
    if (!/^[\t\x20-\x7e]*$/.test(secret)) throw new Undeliverable('secret unreadable', 'it has more than visible ASCII')
    return { authorization: secret }
  }

  function judge({ event, tries }: DueDelivery, result: Result, nowMs: number): Pick<Attempt, 'next' | 'disable'> {
    if ('status' in result && result.status >= 200 && result.status <= 299) return { next: { state: 'delivered' } }
    if (event === testEvent) return { next: { state: 'failed' } }
    const time = new Date(nowMs).toISOString()
    const what = 'status' in result ? `the receiver answered ${result.status}` : result.failure
    if ('status' in result && result.status === gone) {
      return { next: { state: 'failed' }, disable: `${what} (gone) at ${time}` }
    }
    const retryAfterMs =
      'status' in result && mayAskForTime.includes(result.status)
        ? parseRetryAfter(result.retryAfter, nowMs)
        : undefined
    const dueAtMs = nextAttemptMs({ attempts: tries + 1, nowMs, retryAfterMs, random })
    if (dueAtMs !== undefined) return { next: { dueAtMs } }
    return { next: { state: 'failed' }, disable: `${tries + 1} attempts failed, the last at ${time}: ${what}` }
  }

  return { serve }
}

/** The secret is there but cannot be decrypted: another master key, or a row that was changed. Other errors are rethrown. */
function rethrowUnreadable(error: unknown): never {
  if (error instanceof Error && (error.name === 'WrongMasterKey' || error.name === 'UnreadableSecret')) {
    throw new Undeliverable('secret unreadable', error)
  }
  throw error
}
