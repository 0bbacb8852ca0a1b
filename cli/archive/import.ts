import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createExportClient } from '../export/client.ts'
import { toMegabytes } from '../export/export.ts'
import { createSteps } from '../terminal/steps.ts'
import { describeTerminal } from '../terminal/terminal.ts'
import { findDefaultWorkspace, type Options, readPlace } from './options.ts'

type Answer = {
  msg: string
  projectId: string
  projectName: string
  isNew: boolean
  experiments?: number
  unknownUsers?: string[]
}

/** `svc import`: sends the archive of a project to a service, which takes all of it or nothing. Repeated, it changes nothing. */
export async function importArchive([file, ...more]: string[], options: Options): Promise<void> {
  const { url, apiKey, workspace, json, text } = readPlace(options)
  if (file === undefined || more.length > 0) throw new Error('name one archive: svc import FILE.')
  const client = createExportClient(url, apiKey)
  const bytesOfAll = await stat(file).then(
    (it) => it.size,
    (error: Error) => {
      throw new Error(`the archive cannot be read: ${error.message}`, { cause: error })
    },
  )
  const workspaceName = workspace ?? (await findDefaultWorkspace(client))
  const target = new URL('api/rest/v2/write/project/import', url.endsWith('/') ? url : `${url}/`)
  target.searchParams.set('workspaceName', workspaceName)
  const project = text('project')
  if (project !== undefined) target.searchParams.set('projectName', project)

  const step = createSteps(process.stdout, describeTerminal(process.stdout, process.env), { json })
  const answer = await step('import', (say) =>
    send(target, {
      apiKey,
      file,
      bytesOfAll,
      onBytes: (bytes) => say(`${toMegabytes(bytes)} of ${toMegabytes(bytesOfAll)}`),
    }),
  )
  const { msg: _, ...imported } = answer
  process.stdout.write(json ? `${JSON.stringify(imported)}\n` : `${describe(answer, workspaceName)}\n`)
}

function describe({ projectName, isNew, experiments, unknownUsers = [] }: Answer, workspaceName: string): string {
  if (!isNew)
    return `This archive is in the workspace "${workspaceName}" already, as project "${projectName}": nothing changed.`
  const lines = [`Project "${projectName}" in the workspace "${workspaceName}", with ${experiments} experiments.`]
  if (unknownUsers.length > 0)
    lines.push(`Not users here, so what was theirs is now yours: ${unknownUsers.join(', ')}.`)
  return lines.join('\n')
}

type Sent = { apiKey: string; file: string; bytesOfAll: number; onBytes(bytes: number): void }

/** `fetch` would give up when the service takes minutes to store what has arrived. */
async function send(target: URL, { apiKey, file, bytesOfAll, onBytes }: Sent): Promise<Answer> {
  const request = (target.protocol === 'https:' ? https : http).request(target, {
    method: 'POST',
    headers: { authorization: apiKey, 'content-type': 'application/x-tar', 'content-length': bytesOfAll },
  })
  const answered = new Promise<http.IncomingMessage>((resolve, reject) => {
    request.once('response', resolve)
    request.once('error', reject)
  })
  let bytes = 0
  const count = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      onBytes(bytes)
      done(null, chunk)
    },
  })
  // A refusal comes before all is sent: the rest then fails, and the answer counts.
  const sent = pipeline(createReadStream(file), count, request)
  sent.catch(() => undefined)
  const response = await answered.catch((error: Error) => {
    throw new Error(`${target.origin} does not answer (${error.message}). Run the command again: it ends as if once.`, {
      cause: error,
    })
  })
  const text = Buffer.concat(await response.toArray()).toString()
  request.destroy()
  await sent.catch(() => undefined)
  const answer = parse(text)
  if (response.statusCode === 200 && answer) return answer
  throw new Error(`HTTP ${response.statusCode}: ${answer?.msg ?? text.slice(0, 200)}`)
}

function parse(text: string): Answer | undefined {
  try {
    return JSON.parse(text) as Answer
  } catch {
    return undefined
  }
}
