/** Why an attempt got no answer. The delivery log shows these words. */
export type Failure =
  | 'url not allowed'
  | 'name not found'
  | 'address not public'
  | 'connection failed'
  | 'certificate not trusted'
  | 'no answer in time'
  | 'answer not understood'
  | 'secret missing'
  | 'secret unreadable'

/** An attempt that got no answer. The cause is for the log of this process. */
export class Undeliverable extends Error {
  readonly failure: Failure

  constructor(failure: Failure, cause?: unknown) {
    super(failure, cause === undefined ? {} : { cause })
    this.failure = failure
  }
}
