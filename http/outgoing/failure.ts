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

/** Decides by code: TLS errors have codes that are not an errno, parser errors begin with HPE. */
export function toUndeliverable(error: unknown): Undeliverable {
  if (error instanceof Undeliverable) return error
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  if (code.startsWith('HPE_')) return new Undeliverable('answer not understood', error)
  if (/CERT|SELF_SIGNED|ISSUER|ALTNAME|CRL/.test(code)) return new Undeliverable('certificate not trusted', error)
  return new Undeliverable('connection failed', error)
}
