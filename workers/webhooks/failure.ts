/** Why an attempt came to nothing, when it was not the receiver's answer. These words stand in the delivery log. */
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

/** An attempt that came to nothing. The cause is for the log of this process. */
export class Undeliverable extends Error {
  readonly failure: Failure

  constructor(failure: Failure, cause?: unknown) {
    super(failure, cause === undefined ? {} : { cause })
    this.failure = failure
  }
}
