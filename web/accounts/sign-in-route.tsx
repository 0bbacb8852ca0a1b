import { getRouteApi, useNavigate } from '@tanstack/react-router'
import { SignIn } from './sign-in-page.tsx'

const route = getRouteApi('/-/sign-in')

/** The address that a link leads to which no longer works. */
export function SignInPage() {
  const { reason } = route.useSearch()
  const navigate = useNavigate()
  return <SignIn reason={reason} onDone={() => void navigate({ to: '/' })} />
}
