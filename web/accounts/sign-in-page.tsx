import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { refusal, type SignInProvider, session, signIn, signInProviders } from '../api/accounts.ts'
import { baseUrl } from '../api/http.ts'
import { Button } from '../kit/button.tsx'
import { TextField } from '../kit/field.tsx'
import { type Reason, reasons } from './reasons.ts'
import styles from './sign-in.module.css'

/** Leads to an identity provider, or takes an API key. It stands in the place of the page that was asked for, which appears then. */
export function SignIn({ reason, onDone }: { reason?: Reason | undefined; onDone?: () => void }) {
  const [key, setKey] = useState('')
  const [error, setError] = useState<string>()
  const [isBusy, setBusy] = useState(false)
  const client = useQueryClient()
  const { data: refused } = useQuery(refusal)
  const { data: providers = [], isPending } = useQuery(signInProviders)

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

  // Or else the field for a key would take the focus from the buttons.
  if (isPending) return null
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
        {providers.length > 0 && (
          <>
            <ul className={styles.providers}>
              {providers.map((it) => (
                <li key={it.id}>
                  <a className={styles.provider} href={toStart(it)}>
                    Sign in with {it.name}
                  </a>
                </li>
              ))}
            </ul>
            <p className={styles.or}>or with a key</p>
          </>
        )}
        <TextField
          label="API key"
          type="password"
          name="api-key"
          autoComplete="current-password"
          placeholder="svc_…"
          autoFocus={providers.length === 0}
          required
          value={key}
          onChange={(event) => setKey(event.target.value)}
        />
        {error && (
          <p role="alert" className={styles.error}>
            {error}
          </p>
        )}
        <Button type="submit" look={providers.length === 0 ? 'primary' : 'plain'} disabled={isBusy}>
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

/** Where the browser goes to sign in; it comes back to the page that it is on. */
function toStart({ path }: SignInProvider): string {
  const url = new URL(path, baseUrl)
  const to = location.href.slice(baseUrl.href.length - 1)
  if (!to.startsWith('/-/sign-in')) url.searchParams.set('to', to)
  return url.href
}

function toLostCookie(publicUrl: string | null): string {
  const isElsewhere = publicUrl !== null && !location.href.startsWith(publicUrl)
  return isElsewhere
    ? `The key is right, but this browser does not keep the session here. Open ${publicUrl} instead.`
    : 'The key is right, but this browser does not keep the session: allow cookies for this address.'
}
