import { createWriteStream } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createExportClient } from '../export/client.ts'
import { toMegabytes } from '../export/export.ts'
import { createSteps } from '../terminal/steps.ts'
import { describeTerminal } from '../terminal/terminal.ts'
import { findDefaultWorkspace, type Options, readPlace } from './options.ts'

/** `svc export --archive`: writes a whole project into one file, under another name until it is whole. */
export async function exportArchive(options: Options): Promise<void> {
  const { url, apiKey, workspace, json, text } = readPlace(options)
  const [project, archive] = [text('project'), text('archive') as string]
  if (!project) throw new Error('the project is missing: name it with --project NAME.')
  const unused = ['out', 'what', 'format', 'rows-of-part'].find((it) => options[it] !== undefined)
  if (unused) throw new Error(`--${unused} is for an export into a folder, not for --archive: leave it out.`)
  const file = path.resolve(archive)
  const partial = `${file}.partial`
  const client = createExportClient(url, apiKey)
  const step = createSteps(process.stdout, describeTerminal(process.stdout, process.env), { json })
  const workspaceName = workspace ?? (await findDefaultWorkspace(client))
  let bytes = 0
  try {
    await step('archive', (say) =>
      client.get('export/archive', { workspaceName, projectName: project }, async ({ body }) => {
        bytes = 0
        const count = async function* (chunks: AsyncIterable<Uint8Array>) {
          for await (const chunk of chunks) {
            bytes += chunk.length
            say(toMegabytes(bytes))
            yield chunk
          }
        }
        await pipeline(Readable.from(body ?? []), count, createWriteStream(partial, { flush: true }))
      }),
    )
    await rename(partial, file)
  } catch (error) {
    await rm(partial, { force: true })
    throw error
  }
  process.stdout.write(json ? `${JSON.stringify({ file, bytes })}\n` : `${toMegabytes(bytes)}: ${file}\n`)
}
