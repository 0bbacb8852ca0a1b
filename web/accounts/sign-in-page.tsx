import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { refusal, session, signIn } from '../api/accounts.ts'
import { Button } from '../kit/button.tsx'
import { TextField } from '../kit/field.tsx'
import styles from './sign-in.module.css'

/** Why somebody has to sign in. */
export type Reason = 'link-used' | 'session-ended' | 'signed-out'

const reasons: Record<Reason, string> = {
  'link-used': 'This link was used already, or is older than ten minutes. Each works once.',
  'session-ended': 'Your session has ended. Sign in again to go on where you were.',
  'signed-out': 'You are signed out.',
}

/** Takes an API key. It stands in the place of the page that was asked for, so that page appears afterwards. */
export function SignIn({ reason, onDone }: { reason?: Reason | undefined; onDone?: () => void }) {
  const [key, setKey] = useState('')
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const client = useQueryClient()
  const { data: refused } = useQuery(refusal)

  async function submit(event: FormEvent) {
    event.preventDefault()
    if (key.trim() === '' || isBusy) return
    setBusy(true)
    setError(undefined)
    try {
      const { publicUrl } = await signIn(key.trim())
      const kept = await client.fetchQuery({ ...session, staleTime: 0 })
      if (!kept) return setError(toLostCookie(publicUrl))
      setKey('')
      await client.invalidateQueries({ predicate: ({ queryKey }) => queryKey[0] !== 'session' })
      onDone?.()
    } catch (reason) {
      setError((reason as Error).message)
    } finally {
      setBusy(false)
    }
  }

  return (
    <div className={styles.page}>
      <title>Sign in · svc</title>
      <form className={styles.card} onSubmit={submit}>
        <h1>Sign in</h1>
        {reason && (
          <p role="status" className={styles.reason}>
            {reasons[reason]}
          </p>
        )}
        {refused && (
          <p role="status" className={styles.reason}>
            {refused}
          </p>
        )}
        <TextField
          label="API key"
          type="password"
          name="api-key"
          autoComplete="current-password"
          placeholder="svc_…"
          autoFocus
          required
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
        {error && (
          <p role="alert" className={styles.error}>
            {error}
          </p>
        )}
        <Button type="submit" look="primary" disabled={isBusy}>
          Sign in
        </Button>
        <details className={styles.help}>
          <summary>Where is my key?</summary>
          <p>
            The first start of the service prints the key of its first admin. Everybody else gets one from an admin.
          </p>
          <p>
            On the machine of the service, <code>npm run svc -- sign-in-link</code> prints a link that signs in without
            a key.
          </p>
        </details>
      </form>
    </div>
  )
}

function toLostCookie(publicUrl: string | null): string {
  const isElsewhere = publicUrl !== null && !location.href.startsWith(publicUrl)
  return isElsewhere
    ? `The key is right, but this browser does not keep the session here. Open ${publicUrl} instead.`
    : 'The key is right, but this browser does not keep the session: allow cookies for this address.'
}
