import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import type { Attack, AttackClass, Target } from './target.ts'

const mebibyte = 1024 * 1024

/** Small or odd bodies that take much memory or time to read. Each is refused or read; the service stays within its memory. */
export function createBombs({ client, experimentKey, workspaceName, url }: Target): AttackClass {
  const zeros = Buffer.alloc(256 * mebibyte, '0')
  const packed = gzipSync(zeros)
  const twice = gzipSync(gzipSync(zeros))
  const small = Buffer.from(JSON.stringify({ experimentKey, metricName: 'a', metricValue: 1 }))
  const writes = [
    '/write/experiment/metric',
    '/write/experiment/metrics/batch',
    '/write/experiment/log-other',
    '/mpm/v2/events/batch',
  ]

  const post = (
    name: string,
    path: string,
    body: string | Buffer,
    headers: Record<string, string>,
    isHeld: (status: number) => boolean,
  ): Attack => ({
    name: `${name} to ${path.split('?')[0]}`,
    async run() {
      const answer = await client.postRaw(path, body, { headers })
      const alive = await fetch(`${url}/livez`)
      if (alive.status !== 200) return `then /livez answered ${alive.status}`
      return isHeld(answer.status) ? undefined : `answered ${answer.status}: ${answer.text.slice(0, 200)}`
    },
  })
  const isRefused = (status: number) => status >= 400 && status < 500
  const isClient = (status: number) => status < 500

  const encodings: [string, Buffer, string][] = [
    ['a gzip of 256 MiB', packed, 'gzip'],
    ['a gzip of 256 MiB', packed, 'x-gzip'],
    ['a gzip of a gzip', twice, 'gzip'],
    ['a gzip of a gzip, named twice', twice, 'gzip, gzip'],
    ['brotli of 256 MiB', brotliCompressSync(zeros), 'br'],
    ['zstd of 256 MiB', zstdCompressSync(zeros), 'zstd'],
    ['deflate of 256 MiB', deflateSync(zeros), 'deflate'],
    ['a gzip that says identity', packed, 'identity'],
    ['gzip members by the thousand', Buffer.concat(Array.from({ length: 5_000 }, () => gzipSync('[[[['))), 'gzip'],
    ['a gzip without an end', packed.subarray(0, packed.length - 100), 'gzip'],
    ['other names of codings', small, 'gzip;q=1'],
    ['a coding ten times', small, Array(10).fill('gzip').join(', ')],
  ]
  const csv = `/mpm/v2/data/events/csv?workspaceName=${workspaceName}&modelName=bombed`
  const inField = (value: string) =>
    `{"experimentKey":"${experimentKey}","metricName":"a","metricValue":1,"more":${value}}`
  const texts: [string, string][] = [
    ['lists in lists', inField('['.repeat(200_000) + ']'.repeat(200_000))],
    ['objects in objects', inField(`${'{"a":'.repeat(200_000)}1${'}'.repeat(200_000)}`)],
    ['lists that never end', '['.repeat(3 * mebibyte)],
    ['a number of a million digits', inField('9'.repeat(mebibyte))],
    ['a fraction of a million digits', inField(`0.${'1'.repeat(mebibyte)}`)],
    ['a huge exponent', inField(`1e${'9'.repeat(mebibyte)}`)],
    ['a small exponent', inField('1e-999999999')],
    [
      'one name a hundred thousand times',
      `{"experimentKey":"${experimentKey}",${'"metricName":"a",'.repeat(100_000)}"metricValue":1}`,
    ],
    ['a hundred thousand names', inField(`{${Array.from({ length: 100_000 }, (_, at) => `"k${at}":0`).join()}}`)],
    [
      'numbers as names, far apart',
      inField(`{${Array.from({ length: 50_000 }, (_, at) => `"${at * 65_537}":0`).join()}}`),
    ],
    ['escapes only', inField(`"${'\\u0041'.repeat(400_000)}"`)],
    ['halves of surrogates', inField(`"${'\\ud800'.repeat(400_000)}"`)],
    ['spaces only', ' '.repeat(3 * mebibyte)],
    ['empty lists', inField(`[${'[],'.repeat(500_000)}[]]`)],
    ['__proto__', inField('1').replace('"more"', '"__proto__":{"isAdmin":true,"permission":"anyone"},"more"')],
    ['constructor', inField('{"constructor":{"prototype":{"isAdmin":true}},"__proto__":{"isAdmin":true}}')],
    [
      'toString, hasOwnProperty',
      inField('1').replace('"more"', '"toString":1,"hasOwnProperty":1,"valueOf":1,"then":1,"toJSON":1,"more"'),
    ],
  ]
  const lines = gzipSync(`predictionId,feature_a\n${'x'.repeat(256 * mebibyte)}`)
  return {
    name: 'bombs',
    oneIn: 5,
    attacks: [
      ...encodings.flatMap(([name, body, encoding]) =>
        writes.map((path) => post(name, path, body, { 'content-encoding': encoding }, isRefused)),
      ),
      ...texts.flatMap(([name, body]) => [
        ...writes.map((path) => post(name, path, body, {}, isClient)),
        post(
          `${name}, as gzip`,
          '/write/experiment/log-other',
          gzipSync(body),
          { 'content-encoding': 'gzip' },
          isClient,
        ),
      ]),
      post('a gzip of CSV', csv, lines, { 'content-type': 'text/csv', 'content-encoding': 'gzip' }, isRefused),
      post(
        'a line that never ends',
        csv,
        `predictionId,feature_a\n${'x'.repeat(20 * mebibyte)}`,
        { 'content-type': 'text/csv' },
        isClient,
      ),
      post(
        'a million columns',
        csv,
        `predictionId,${'feature_a,'.repeat(500_000)}\n1\n`,
        { 'content-type': 'text/csv' },
        isClient,
      ),
      post(
        'parts by the thousand',
        '/write/experiment/upload-asset?experimentKey=x',
        toParts(20_000),
        { 'content-type': 'multipart/form-data; boundary=b' },
        isRefused,
      ),
      post(
        'a part within a part',
        `/write/experiment/upload-asset?experimentKey=${experimentKey}`,
        '--b\r\ncontent-disposition: form-data; name="file"\r\ncontent-type: multipart/mixed; boundary=c\r\ncontent-encoding: gzip\r\n\r\n--c--\r\n--b--\r\n',
        { 'content-type': 'multipart/form-data; boundary=b' },
        isClient,
      ),
    ],
    async finish() {
      // What was sent as a prototype changed nothing for others.
      const answer = await fetch(`${url}/api/rest/v2/admin/users`)
      return answer.status === 401 ? [] : [`afterwards /admin/users answered ${answer.status} without a key`]
    },
  }
}

const toParts = (count: number) =>
  `${'--b\r\ncontent-disposition: form-data; name="a"\r\n\r\nx\r\n'.repeat(count)}--b--\r\n`
