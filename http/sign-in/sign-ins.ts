import { Counter, type Registry } from 'prom-client'

/** How somebody signs in; `proxy` is the header of a reverse proxy, `oidc` a provider of OpenID Connect. */
type SignInWay = 'key' | 'link' | 'oidc' | 'proxy'

/** @param outcome `opened`, or why not: one of a few fixed words */
export type CountSignIn = (way: SignInWay, outcome: string) => void

/** Counts sign-ins, and those that were refused, for `/metrics`. */
export function createSignInCounter(registry: Registry): CountSignIn {
  const counter = new Counter({
    name: 'svc_sign_ins_total',
    help: 'Sign-ins, by the way and the outcome: opened, or why not',
    labelNames: ['way', 'outcome'],
    registers: [registry],
  })
  return (way, outcome) => counter.inc({ way, outcome })
}
