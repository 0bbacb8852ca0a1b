import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createAttempts, toOwnPath } from '../../../api/single-sign-on/attempt.ts'

describe('what a browser keeps while a person signs in elsewhere', () => {
  it('opens for ten minutes, for its provider and state only, and only as it was made', () => {
    let nowMs = 1_000_000
    const key = randomBytes(32)
    const attempts = createAttempts(key, () => nowMs)
    const attempt = attempts.begin('corp', '/vision')
    const sealed = attempts.seal(attempt)
    for (const secret of [attempt.state, attempt.nonce, attempt.verifier]) {
      expect(secret).toMatch(/^[\w-]{43}$/)
      expect(sealed).not.toContain(secret)
    }
    expect(attempts.open(sealed, 'corp', attempt.state)).toEqual(attempt)
    expect(attempts.open(sealed, 'other', attempt.state)).toBeUndefined()
    expect(attempts.open(sealed, 'corp', attempts.begin('corp', '/').state)).toBeUndefined()
    expect(attempts.open(undefined, 'corp', attempt.state)).toBeUndefined()
    const bytes = Buffer.from(sealed, 'base64url')
    for (let at = 0; at < bytes.length; at++) {
      const changed = Buffer.from(bytes)
      changed[at] = (changed[at] as number) ^ 1
      expect(attempts.open(changed.toString('base64url'), 'corp', attempt.state), `byte ${at}`).toBeUndefined()
    }
    expect(createAttempts(randomBytes(32), () => nowMs).open(sealed, 'corp', attempt.state)).toBeUndefined()
    nowMs += 599_000
    expect(attempts.open(sealed, 'corp', attempt.state)).toEqual(attempt)
    nowMs += 1_000
    expect(attempts.open(sealed, 'corp', attempt.state)).toBeUndefined()
  })

  it('leads back to this service, whatever a link says', () => {
    for (const own of ['/', '/vision', '/vision/cifar?view=a%20b#x', '/-/settings?section=keys']) {
      expect(toOwnPath(own)).toBe(own)
    }
    const others = [undefined, ['/a'], '', 'a', '//evil.example', '/\\evil.example', 'https://evil.example', '/a b']
    const loops = [
      '/-/sign-in',
      '/-/sign-in?reason=denied',
      '/-/oidc/corp/start',
      '/a\r\nset-cookie: x=y',
      `/${'a'.repeat(2_000)}`,
    ]
    for (const other of [...others, ...loops]) expect(toOwnPath(other), String(other)).toBe('/')
  })
})
