import { once } from 'node:events'
import { connect } from 'node:net'
import { sendAlone } from '../malformed/connection.ts'
import type { AttackClass, Target } from './target.ts'

/** Spellings of an address that a proxy in front may read as another one. */
const spellings: ((path: string) => string)[] = [
  (it) => it,
  (it) => `${it}/`,
  (it) => `/${it}`,
  (it) => `/.${it}`,
  (it) => `/-/sign-in/..${it}`,
  (it) => `/livez/../..${it}`,
  (it) => `/livez/%2e%2e${it}`,
  (it) => `/livez/..%2f${it.slice(1)}`,
  (it) => `/livez/..%5c${it.slice(1)}`,
  (it) => `/livez/..;${it}`,
  (it) => it.replaceAll('/', '%2f').replace('%2f', '/'),
  (it) => it.replaceAll('/', '%252f').replace('%252f', '/'),
  (it) => it.replaceAll('/', '\\').replace('\\', '/'),
  (it) => it.replaceAll('/', '//'),
  (it) => it.replace(/[a-z](?=[a-z]*$)/, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
  (it) => it.replace(/[a-z](?=[a-z]*$)/, (letter) => `%25${letter.charCodeAt(0).toString(16)}`),
  (it) => `${it};a=b`,
  (it) => `${it}%20`,
  (it) => `${it}%00`,
  (it) => `${it}%0d%0aa:b`,
  (it) => `${it}.json`,
  (it) => it.toUpperCase(),
  (it) => `http://localhost${it}`,
  (it) => `http://localhost:1@localhost${it}`,
  (it) => `//localhost${it}`,
  (it) => `${it}?shareCode=`,
  (it) => `${it}#/livez`,
]

const isRefused = (status: number) => [400, 401, 403, 404, 405, 414, 415].includes(status)

/** Nobody without a key gets anything from any route that needs one, however its address is written. */
export function createAddressTricks({ url, document }: Target): AttackClass {
  const attacks = Object.entries(document.paths).flatMap(([path, operations]) =>
    Object.entries(operations)
      .filter(([, it]) => it.security && it.security.length > 0)
      .map(([name]) => ({
        name: `${name.toUpperCase()} ${path}`,
        async run() {
          const filled = path.replaceAll(/\{\w+\}/g, 'x')
          const wrong = await askAll(
            url,
            name.toUpperCase(),
            spellings.map((it) => it(filled)),
          )
          return wrong === undefined ? undefined : `without a key: ${wrong}`
        },
      })),
  )
  return { name: 'addresses of routes', oneIn: 24, attacks }
}

/** Asks for addresses one after the other on one connection, as they are written. Answers the first that is not refused. */
async function askAll(url: string, method: string, paths: string[]): Promise<string | undefined> {
  for (const path of paths) {
    const bytes = Buffer.from(
      `${method} ${path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n`,
    )
    const { answers } = await sendAlone(url, { kind: '', manner: 'finish', isHead: false, bytes })
    const status = answers[0]?.status ?? 400
    if (!isRefused(status)) return `${path} answered ${status}: ${answers[0]?.body.slice(0, 100)}`
  }
  return undefined
}

const steps = [
  '../',
  '..%2f',
  '%2e%2e/',
  '%2e%2e%2f',
  '..%5c',
  '%2e%2e%5c',
  '..%252f',
  '....//',
  '..;/',
  '.%00./',
  '%c0%ae%c0%ae/',
  '..\\',
]
const wanted = ['package.json', 'etc/passwd', 'cli/svc.ts', 'index.html', '.env']

/** The files of the web interface lead to no other file. */
export function createPathTraversal({ url }: Target): AttackClass {
  const attacks = steps.flatMap((step) =>
    wanted.map((file) => ({
      name: `${step} to ${file}`,
      async run() {
        for (const times of [1, 2, 3, 8]) {
          for (const base of ['/-/static/', '/-/static', '/-/', '/reference/', '/']) {
            const path = `${base}${step.repeat(times)}${file}`
            const { status, text } = await askRaw(url, path)
            if (status === 200 && !text.includes('<base href=')) return `${path} answered ${text.slice(0, 100)}`
          }
        }
        return undefined
      },
    })),
  )
  return { name: 'paths of files', oneIn: 6, attacks }
}

async function askRaw(url: string, path: string, headers: string[] = [], method = 'GET') {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  await once(socket, 'connect')
  socket.write(
    `${[`${method} ${path} HTTP/1.1`, 'host: localhost', 'connection: close', ...headers].join('\r\n')}\r\n\r\n`,
  )
  const text = Buffer.concat(await socket.toArray()).toString()
  return {
    status: Number(text.slice(9, 12)),
    text: text.slice(text.indexOf('\r\n\r\n') + 4),
    head: text.slice(0, text.indexOf('\r\n\r\n')),
  }
}

const evil = 'evil.example'
/** Headers that some servers let decide about the address, the method or the origin of a request. */
const hints: string[][] = [
  ...['x-original-url: /admin', 'x-rewrite-url: /admin', 'x-http-method-override: DELETE', 'x-method-override: PUT'],
  ...[
    `x-forwarded-host: ${evil}`,
    `x-host: ${evil}`,
    `x-forwarded-server: ${evil}`,
    `forwarded: host=${evil};proto=https`,
  ],
  ...[`x-forwarded-prefix: /${evil}`, `x-forwarded-path: /${evil}`, 'x-forwarded-port: 1', 'x-forwarded-scheme: https'],
  ...['x-forwarded-for: 127.0.0.1', 'x-real-ip: 127.0.0.1', 'x-client-ip: 127.0.0.1', 'true-client-ip: 127.0.0.1'],
  ...['via: 1.1 localhost', 'x-wap-profile: http://127.0.0.1/', `origin: https://${evil}`, `referer: https://${evil}/`],
  ...[
    'connection: close, authorization',
    'connection: x-forwarded-user',
    'range: bytes=0-1,1-2,2-3',
    'if-none-match: *',
  ],
].map((it) => [it])

/** Each answers the same with these headers as without, and never leads to where a header says. */
export function createHeaderTricks(target: Target): AttackClass {
  const { url, apiKey, projectId } = target
  const key = `authorization: ${apiKey}`
  const paths = [
    '/',
    '/session',
    '/session/providers',
    '/reference',
    '/api/my/settings',
    '/-/sign-in',
    '/livez',
    '/openapi.json',
  ]
  const asked = [
    ...paths,
    `/api/rest/v2/project?projectId=${projectId}`,
    '/api/rest/v2/admin/users',
    '/api/rest/v2/workspaces',
  ]
  const withoutTime = (text: string) => text.replace(/"[a-z]*(at|ms|time)[a-z]*":[^,}]*/gi, '')
  const attacks = hints.map((hint) => ({
    name: hint.join(),
    async run() {
      for (const path of asked) {
        const plain = await askRaw(url, path, [key])
        const tricked = await askRaw(url, path, [key, ...hint])
        if (tricked.text.includes(evil) || tricked.head.includes(evil)) return `${path} repeats ${evil}`
        // A range and a condition ask for a part, or nothing, of the same.
        const isSame = tricked.status === plain.status && withoutTime(tricked.text) === withoutTime(plain.text)
        if (!isSame && ![206, 304, 416].includes(tricked.status))
          return `${path} answered ${tricked.status}, else ${plain.status}`
      }
      return undefined
    },
  }))
  const hosts = [
    `host: ${evil}`,
    `host: ${evil}:8080`,
    `host: localhost@${evil}`,
    `host: localhost\r\nhost: ${evil}`,
  ].map((host) => ({
    name: JSON.stringify(host),
    async run() {
      for (const path of paths) {
        const bytes = Buffer.from(`GET ${path} HTTP/1.1\r\n${host}\r\nconnection: close\r\n${key}\r\n\r\n`)
        const { answers } = await sendAlone(url, { kind: '', manner: 'finish', isHead: false, bytes })
        if (answers.some((it) => it.body.includes(evil) || it.head.includes(evil))) return `${path} repeats the host`
      }
      return undefined
    },
  }))
  return { name: 'headers that lead elsewhere', oneIn: 3, attacks: [...attacks, ...hosts] }
}

/** The headers of a proxy that signs people in count with its secret only, in whatever form somebody else sends them. */
export function createForgedSignOn({ url }: Target): AttackClass {
  const forms: string[][] = [
    ['x-forwarded-user: admin'],
    ['X-Forwarded-User: admin'],
    ['x_forwarded_user: admin', 'x_svc_proxy_secret: a-secret-that-only-the-proxy-has'],
    ['x-forwarded-user: admin', 'x_svc_proxy_secret: a-secret-that-only-the-proxy-has'],
    ['x-forwarded-user: admin', 'x-svc-proxy-secret:'],
    ['x-forwarded-user: admin', 'x-svc-proxy-secret: undefined'],
    ['x-forwarded-user: admin', 'x-svc-proxy-secret: null'],
    ['x-forwarded-user: admin', 'x-svc-proxy-secret: [object Object]'],
    ['x-forwarded-user: admin', 'x-svc-proxy-secret: PROXY_SECRET'],
    ['x-forwarded-user: admin', 'x-svc-proxy-secret: A-SECRET-THAT-ONLY-THE-PROXY-HAS'],
    ['x-forwarded-user: admin', 'x-svc-proxy-secret: a-secret-that-only-the-proxy-ha'],
    ['x-forwarded-user: admin', 'x-svc-proxy-secret: wrong', 'x-svc-proxy-secret: wrong'],
    ['x-forwarded-user: admin', 'x-forwarded-user: admin'],
    ['x-forwarded-user: admin', 'x-forwarded-for: 127.0.0.1', 'x-real-ip: 127.0.0.1', 'forwarded: for=127.0.0.1'],
    ['remote-user: admin', 'x-remote-user: admin', 'x-auth-request-user: admin', 'x-webauth-user: admin'],
    ['x-forwarded-preferred-username: admin', 'x-forwarded-email: admin@localhost', 'x-forwarded-groups: admins'],
    ['x-authenticated-user: admin', 'x-user: admin', 'x-forwarded-login: admin', 'x-ms-client-principal-name: admin'],
    ['cookie: x-forwarded-user=admin', 'x-svc-page: 1'],
  ]
  const attacks = forms.map((headers) => ({
    name: headers.join(', '),
    async run() {
      for (const path of ['/session', '/api/rest/v2/workspaces', '/api/rest/v2/admin/users']) {
        const plain = await askRaw(url, path)
        const forged = await askRaw(url, path, headers)
        if (forged.status !== 401 || forged.text !== plain.text)
          return `${path} answered ${forged.status}: ${forged.text.slice(0, 100)}`
      }
      return undefined
    },
  }))
  return { name: 'forged sign-on', attacks }
}
