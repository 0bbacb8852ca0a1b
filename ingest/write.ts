import type { IncomingHttpHeaders } from 'node:http'
import type { Caller } from '../http/route.ts'
import type { ExperimentType } from '../store/limits.ts'
import type { WritableExperiment } from '../store/postgres/experiments/experiments.ts'
import type { Heartbeats } from '../store/postgres/experiments/heartbeats.ts'
import type { QueueName } from '../store/queue/queues.ts'
import type { Counters } from '../throttle/counters.ts'
import type { Throttle } from '../throttle/throttle.ts'
import { createIdentities, type Origin, type RequestId } from './identity.ts'

/**
 * Every write to an experiment takes the same five steps. Before them the key was checked (`http/key-check.ts`) and the body
 * parsed (`http/fast-path/routes.ts`).
 *
 * 1. Find the experiment (`experiments.ts`).
 * 2. Charge its rows to the experiment and to the key (`throttle/throttle.ts`).
 * 3. Check each row (`points/`, `output/`).
 * 4. Add the rows to the open block; one job carries it to the queue (`committer.ts`).
 * 5. Answer after the queue has the block.
 *
 * What differs from route to route is in `WriteParts`; `routes.ts` lists them.
 */
export type WriteDeps = {
  findExperiment(caller: Caller, key: string): WritableExperiment | Promise<WritableExperiment>
  throttle: Throttle
  heartbeats: Heartbeats
  counters: Counters
  startMs: number
  onAccepted(type: StreamType, rows: number): void
}

/** The data types of experiments that go through a queue of the same name. */
type StreamType = ExperimentType & QueueName

type WriteParts<Body, Envelope extends { experimentKey: string }, Rows> = {
  type: StreamType
  /** Names the route in the scope of an `Idempotency-Key`. Stored in the identity of rows: never change one. */
  call: string
  /** Reads the experiment key and the unchecked rows. @throws HttpError */
  readEnvelope(body: Body, headers: IncomingHttpHeaders): Envelope
  /** The identity of a request whose client sends no `Idempotency-Key`, from what it does send; undefined: a new one. */
  identify?(envelope: Envelope, headers: IncomingHttpHeaders): RequestId | undefined
  /** Counts the rows to charge, before any is checked. @throws HttpError `tooLarge` */
  countClaimed(envelope: Envelope): number
  /** Checks each row and drops those that must not be stored. */
  checkRows(envelope: Envelope, experiment: WritableExperiment): Rows | Promise<Rows>
  countAccepted(rows: Rows): number
  /** Resolves when the queue has the rows. @throws HttpError `unavailable` */
  commit(origin: Origin, rows: Rows, experiment: WritableExperiment): Promise<void>
  /** The answer, as JSON text. */
  toAnswer(rows: Rows): string
}

type Call<Body> = { body: Body; caller: Caller; headers: IncomingHttpHeaders }

export function createWriteHandlers({
  findExperiment,
  throttle,
  heartbeats,
  counters,
  startMs,
  onAccepted,
}: WriteDeps) {
  const toIdentity = createIdentities(startMs)

  return function toHandler<Body, Envelope extends { experimentKey: string }, Rows>(
    parts: WriteParts<Body, Envelope, Rows>,
  ) {
    const { type, call } = parts

    // A hot path. An await costs a turn of the event loop, so only promises are awaited.
    return async function handle({ body, caller, headers }: Call<Body>): Promise<string> {
      const { keyId, userId } = caller
      const envelope = parts.readEnvelope(body, headers)
      const identity = parts.identify?.(envelope, headers) ?? toIdentity(userId, call, headers)
      const found = findExperiment(caller, envelope.experimentKey)
      const experiment = found instanceof Promise ? await found : found
      const experimentId = experiment.id

      const claimed = parts.countClaimed(envelope)
      const waiting = throttle.admit(type, experiment, caller, claimed)
      if (waiting) await waiting

      const checked = parts.checkRows(envelope, experiment)
      const rows = checked instanceof Promise ? await checked : checked

      const accepted = parts.countAccepted(rows)
      if (accepted > 0) {
        const origin = { experimentId, identity, receivedMs: Date.now() }
        try {
          await parts.commit(origin, rows, experiment)
        } catch (error) {
          throttle.giveBack({ type, experiment, keyId, count: claimed })
          throw error
        }
        heartbeats.active(experimentId, origin.receivedMs)
        counters.accepted(type, experimentId, accepted)
        onAccepted(type, accepted)
      }
      return parts.toAnswer(rows)
    }
  }
}
