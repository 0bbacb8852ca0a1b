import { existsSync } from 'node:fs'
import { pack } from 'tar-stream'
import { archiveFormat, archiveVersion, headMember } from '../../api/archive/members.ts'
import { createAssetClient } from '../kit/clients/assets.ts'
import { readZip } from '../kit/zip.ts'
import type { Attack, AttackClass, Target } from './target.ts'

const outside = `/tmp/svc-attacks-${process.pid}`
/** Names that lead out of a folder on some system, or mean something else than a file. */
const names = [
  ...[`..${outside}`, `${'../'.repeat(12)}${outside.slice(1)}`, outside, `./../..${outside}`, `a/../../..${outside}`],
  ...[
    `..\\..\\windows\\win.ini`,
    'C:\\windows\\win.ini',
    'C:win.ini',
    '\\\\host\\share\\file',
    '//host/share/file',
    'file::$DATA',
  ],
  ...[
    'CON',
    'aux.txt',
    'a.',
    'a ',
    '.',
    '..',
    '...',
    '/',
    '\\',
    '~/.ssh/authorized_keys',
    '.htaccess',
    'a/./b',
    'a//b',
  ],
  ...[
    '%2e%2e%2fa',
    '..%2fa',
    '..%c0%afa',
    '\u2025/a',
    '\uff0e\uff0e/a',
    'a\u202etxt.exe',
    'a\r\nset-cookie: a=b',
    'a"; filename="b',
  ],
  ...[
    '-rf',
    '--help',
    '$(id)',
    '`id`',
    '| id',
    '*',
    '?',
    '<script>',
    'a\tb',
    '\x7f',
    'x'.repeat(1_000),
    `${'a/'.repeat(400)}b`,
  ],
]

/** Assets keep whatever name they were given, and lead nowhere by it: not when stored, not when downloaded, not in a zip. */
export async function createFileNames(target: Target): Promise<AttackClass> {
  const { client, url, apiKey, projectName } = target
  const experimentKey = await client.createExperiment({ projectName })
  const assets = createAssetClient(target)
  const sent = { body: Buffer.from('content'), headers: { 'content-type': 'text/html' } }
  const isLate = () => existsSync(outside) && `there is ${outside}`
  const attacks: Attack[] = [...names, ...names.slice(0, 3)].map((fileName) => ({
    name: JSON.stringify(fileName.slice(0, 60)),
    async run() {
      const stored = await assets.upload({ experimentKey, fileName }, sent)
      if (stored.status >= 400 && stored.status < 500) return undefined
      if (stored.status !== 200) return `answered ${stored.status}`
      const query = new URLSearchParams({ experimentKey, assetId: stored.body.assetId as string })
      const answer = await client.get(`/experiment/asset/get-asset?${query}`)
      if (answer.status !== 200 || answer.text !== 'content') return `is read as ${answer.status}`
      if (answer.headers.get('set-cookie') !== null) return 'sets a header'
      if (!/^attachment/.test(answer.headers.get('content-disposition') ?? '')) return 'is no download'
      return isLate() || undefined
    },
  }))
  attacks.push(...names.slice(0, 24).map((name) => toMlflowUpload(target, name, isLate)))
  return {
    name: 'names of files',
    oneIn: 2,
    attacks,
    async finish() {
      const answer = await fetch(`${url}/api/rest/v2/experiment/asset/zip?experimentKey=${experimentKey}`, {
        headers: { authorization: apiKey },
      })
      const entries = readZip(Buffer.from(await answer.arrayBuffer())).map((it) => it.name)
      const isUnsafe = (it: string) =>
        /^[/\\]|^[a-z]:|\\|\0/i.test(it) || it.split('/').some((step) => step === '..' || step === '.')
      const unsafe = entries.filter(isUnsafe).map((it) => `the zip has ${JSON.stringify(it)}`)
      const isDouble = new Set(entries).size !== entries.length
      return [
        ...unsafe,
        ...(isDouble ? ['the zip has a name twice'] : []),
        ...(entries.length < 20 ? [`the zip has ${entries.length} entries`] : []),
      ]
    },
  }
}

function toMlflowUpload({ url, apiKey }: Target, name: string, isLate: () => string | false): Attack {
  return {
    name: `as a path of MLflow: ${JSON.stringify(name.slice(0, 60))}`,
    async run() {
      for (const path of [encodeURIComponent(name), encodeURI(name)]) {
        const answer = await fetch(`${url}/api/2.0/mlflow-artifacts/artifacts/${path}`, {
          method: 'PUT',
          headers: { authorization: apiKey },
          body: 'content',
        })
        if (answer.status >= 500 && answer.status !== 501) return `answered ${answer.status}: ${await answer.text()}`
        await answer.text()
      }
      return isLate() || undefined
    },
  }
}

type Member = Parameters<ReturnType<typeof pack>['entry']>[0] & { content?: string }

/** Archives of projects whose members are not what they should be: refused by the name of the member, and nothing is imported. */
export function createArchives(target: Target): AttackClass {
  const { client, workspaceName } = target
  const members: [string, Member[]][] = [
    ...names
      .filter((it) => !/[\r\n]/.test(it))
      .map((name): [string, Member[]] => [`the name ${JSON.stringify(name.slice(0, 60))}`, [{ name, content: 'x' }]]),
    ...[
      'tables/../../etc/passwd',
      'tables/experiments-00001.jsonl.gz/..',
      'objects/../../a',
      'objects/00000001',
      'logged/../tables-00001.jsonl.gz',
    ].map((name): [string, Member[]] => [`the name ${name}`, [{ name, content: 'x' }]]),
    ['a name of 100,000 characters', [{ name: 'n'.repeat(100_000), content: 'x' }]],
    ['a symbolic link', [{ name: 'tables/experiments-00001.jsonl.gz', type: 'symlink', linkname: '/etc/passwd' }]],
    [
      'a symbolic link, and a file through it',
      [
        { name: 'objects', type: 'symlink', linkname: '/tmp' },
        { name: 'objects/00000001', content: 'x' },
      ],
    ],
    ['a hard link', [{ name: 'objects/00000001', type: 'link', linkname: '/etc/passwd' }]],
    ['a folder', [{ name: 'objects', type: 'directory' }]],
    ['a device', [{ name: 'objects/00000001', type: 'character-device' }]],
    ['a pipe', [{ name: 'objects/00000001', type: 'fifo' }]],
    ['the head twice', [{ name: headMember, content: 'x' }]],
    [
      'a table twice',
      [
        { name: 'tables/experiments-00001.jsonl.gz', content: 'x' },
        { name: 'tables/experiments-00001.jsonl.gz', content: 'x' },
      ],
    ],
    ['a table of the name of a property', [{ name: 'tables/constructor-00001.jsonl.gz', content: 'x' }]],
    ['rows of the name of a property', [{ name: 'logged/constructor-00001.jsonl.gz', content: 'x' }]],
    ['a mode that sets the user', [{ name: 'objects/00000001', mode: 0o6777, uid: 0, content: 'x' }]],
  ]
  const post = async (body: Buffer, isHeld = (text: string) => /Nothing was imported|must be|not/.test(text)) => {
    // A process takes one at a time.
    for (;;) {
      const answer = await client.postRaw(
        `/write/project/import?workspaceName=${workspaceName}&projectName=imported`,
        body,
        {
          headers: { 'content-type': 'application/x-tar' },
        },
      )
      if (answer.status === 503) continue
      const isRefused = answer.status === 400 && isHeld(answer.text)
      return isRefused ? undefined : `answered ${answer.status}: ${answer.text.slice(0, 200)}`
    }
  }
  const raw: [string, (tar: Buffer) => Buffer][] = [
    ['a size that is negative', (tar) => withSize(tar, '-0000000001')],
    ['a size of 8 EiB', (tar) => withSize(tar, '\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff')],
    ['a size that is no number', (tar) => withSize(tar, 'zzzzzzzzzzz')],
    ['no checksum', (tar) => Buffer.concat([tar.subarray(0, 148), Buffer.alloc(8), tar.subarray(156)])],
    ['bytes that are no tar', () => Buffer.from('PK\x03\x04 and nothing else')],
    ['an empty body', () => Buffer.alloc(0)],
    ['zeros only', () => Buffer.alloc(64 * 1024)],
  ]
  return {
    name: 'archives',
    attacks: [
      ...members.map(([name, added]) => ({ name, run: async () => await post(await toTar([head(), ...added])) })),
      ...raw.map(([name, change]) => ({
        name,
        run: async () => await post(change(await toTar([head()])), () => true),
      })),
    ],
    async finish() {
      const { body } = await client.get(`/projects?workspaceName=${workspaceName}`)
      const isThere = JSON.stringify(body).includes('"imported"')
      return [...(isThere ? ['a project was imported'] : []), ...(existsSync(outside) ? [`there is ${outside}`] : [])]
    },
  }
}

function head(): Member {
  const at = '2026-01-01T00:00:00.000Z'
  const named = { id: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', name: 'p', description: '', notes: '', owner: 'x' }
  const project = { ...named, isPublic: false, archived: false, createdAt: at, updatedAt: at }
  const content = {
    format: archiveFormat,
    version: archiveVersion,
    id: 'b3b5a1f0-3c1f-4d0a-8a53-6f2a63a8a111',
    project,
  }
  return { name: headMember, content: JSON.stringify(content) }
}

async function toTar(members: Member[]): Promise<Buffer> {
  const tar = pack()
  for (const { content, ...header } of members) tar.entry(header, content ?? '')
  tar.finalize()
  const chunks: Buffer[] = []
  for await (const chunk of tar as unknown as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** The first header with another size, and a checksum that is right. */
function withSize(tar: Buffer, size: string): Buffer {
  const changed = Buffer.from(tar)
  changed.write(size.padEnd(12, '\0'), 124, 12, 'latin1')
  changed.write('        ', 148, 8, 'latin1')
  const sum = changed.subarray(0, 512).reduce((total, byte) => total + byte, 0)
  changed.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 8, 'latin1')
  return changed
}
