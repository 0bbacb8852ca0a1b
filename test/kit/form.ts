import { z } from 'zod'
import { availableQueues, type QueueKind } from './service.ts'

/**
 * How often processes are killed, stores taken away and files made large: `npm test` has the short form, CI the middle one
 * (`SVC_TEST_FORM=middle npm test`), `npm run test:long` the long one. What takes minutes at any size the short one skips.
 */
const forms = ['short', 'middle', 'long'] as const
type Form = (typeof forms)[number]

export const form: Form = z.enum(forms).parse(process.env.SVC_TEST_FORM ?? 'short')

/** What the form of this run has, for example a number of kills. */
export function inForm<T>(choices: Record<Form, T>): T {
  return choices[form]
}

/**
 * The kinds of queue for a test that takes long: both in the long form, else the one that production has, where there is a
 * Redis. Tests that take a moment run on both in every form.
 */
export function queuesInForm(): QueueKind[] {
  const queues = availableQueues()
  return form === 'long' ? queues : queues.slice(-1)
}
