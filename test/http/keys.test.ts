import { createHash, randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createKeyCheck } from '../../http/key-check.ts'
import { createApiKey } from '../../store/postgres/accounts/api-key.ts'
import { insertApiKey } from '../../store/postgres/accounts/keys.ts'
import { openDatabase } from '../../store/postgres/database.ts'
import { codes, expectRefusal } from '../api/http-error.ts'
import { openTestService, storesWith } from '../kit/service.ts'

let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  service = await openTestService({ settings: { SVC_AUTH_HEADERS: 'X-Svc-Key, x-other-key' } })
})
afterAll(() => service?.close())

/** Asks with these headers and no others of ours. */
async function ask(headers: Record<string, string>, path = '/api/rest/v2/account-details', init: RequestInit = {}) {
  const answer = await fetch(service.url + path, { ...init, headers })
  const text = await answer.text()
  return { status: answer.status, headers: answer.headers, text, body: JSON.parse(text) as Record<string, unknown> }
}

describe('the key', () => {
  it.each<[string, (key: string) => Record<string, string>]>([
    ['Authorization: <key>', (key) => ({ authorization: key })],
    ['Authorization: Bearer <key>', (key) => ({ authorization: `Bearer ${key}` })],
    ['Authorization: bearer <key>', (key) => ({ authorization: `bearer  ${key} ` })],
    ['a header that a setting names', (key) => ({ 'x-svc-key': key })],
    ['another one, whatever its case', (key) => ({ 'X-OTHER-KEY': `Bearer ${key}` })],
    ['that header, with Authorization empty', (key) => ({ authorization: '', 'x-svc-key': key })],
  ])('is taken as %s', async (_, toHeaders) => {
    const answer = await ask(toHeaders(service.apiKey))

    expect(answer.status).toBe(200)
    expect(answer.body.userName).toBe(service.userName)
  })

  it.each([
    ['one of an earlier version', `svc_${randomBytes(36).toString('hex')}`],
    ['one that a setting gave', `svc_test-${randomBytes(8).toString('hex')}`],
  ])('in another form than those made now works: %s', async (_, key) => {
    const database = openDatabase({ url: storesWith('postgres').postgresUrl, onError: () => undefined })
    const user = await database.row<{ id: string }>('SELECT id FROM users WHERE user_name = $1', [service.userName])
    await insertApiKey(database, (user as { id: string }).id, key)
    await database.close()
    expect((await ask({ authorization: key })).body.userName).toBe(service.userName)
  })

  it('is looked up by its SHA-256 alone: keys that begin alike have nothing in common for the store', async () => {
    const asked: unknown[][] = []
    const checkKey = createKeyCheck({
      async findCaller(...given) {
        asked.push(given)
        return undefined
      },
      authHeaders: [],
    })
    const guesses = ['a', 'ab', 'abc'].map((it) => `${service.apiKey.slice(0, 20)}${it}`)
    for (const authorization of guesses) await expect(checkKey({ authorization })).rejects.toThrow('not registered')
    expect(asked).toEqual(guesses.map((it) => [createHash('sha256').update(it).digest('hex')]))

    const database = openDatabase({ url: storesWith('postgres').postgresUrl, onError: () => undefined })
    const indexes = await database.rows<{ on: string }>(
      `SELECT pg_get_indexdef(indexrelid) AS on FROM pg_index WHERE indrelid = 'api_keys'::regclass AND indisunique`,
    )
    await database.close()
    expect(indexes.map((it) => it.on)).toContainEqual(expect.stringMatching(/\(key_hash\)$/))
  })

  it('that is missing answers 401 with how to send it', async () => {
    const message = 'No API key was sent: set the header "Authorization: <API key>".'
    const wrong = [[], ['authorization', ''], ['authorization', ' '], ['x-unknown-key', service.apiKey]]
    for (const header of wrong) {
      expectRefusal(await ask(Object.fromEntries(header.length > 0 ? [header] : [])), 401, codes.keyMissing, message)
    }
  })

  it.each([
    ['x', 'x'],
    ['a scheme alone', 'Bearer'],
    ['a scheme twice', 'Bearer Bearer'],
    ['a name and password', 'Basic dXNlcjpwYXNz'],
    ['the beginning of a key', 'svc_0'],
    ['a key in other letters', '\u00e9\u00ff'],
    ['a very long one', 'x'.repeat(5_000)],
    ['one with a typo', createApiKey().replace(/.$/, (last) => (last === 'x' ? 'y' : 'x'))],
    ['one that nobody has', createApiKey()],
    ['SQL', "' OR 1=1 --"],
  ])('%s, which is not registered, answers 401 with 90212', async (_, authorization) => {
    expectRefusal(await ask({ authorization }), 401, codes.keyUnknown, 'This API key is not registered.')
  })

  it('is checked before the body is read', async () => {
    const path = '/api/rest/v2/write/experiment/metric'
    const init = { method: 'POST', body: '{ not JSON' }
    expectRefusal(await ask({}, path, init), 401, codes.keyMissing, /^No API key/)
    expectRefusal(await ask({ authorization: 'x' }, path, init), 401, codes.keyUnknown, /not registered/)
  })

  it('is not required by /livez, /readyz, /metrics, /openapi.json and the version call', async () => {
    for (const path of ['/livez', '/readyz', '/metrics', '/openapi.json', '/clientlib/isAlive/ver']) {
      expect((await fetch(service.url + path)).status).toBe(200)
    }
  })
})
