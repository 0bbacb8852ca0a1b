import { spawn } from 'node:child_process'
import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { eventually } from '../eventually.ts'

const access = 'testaccess'
const secret = 'test/secret+key'
const bucket = 'svc-test'

type S3Server = { url: string; close(): Promise<void> }

/**
 * A real S3 server with an empty bucket: the bucket at S3_TEST_URL (as OBJECTS_URL has it), else a `versitygw` of our own
 * when there is one on the PATH; undefined when there is neither.
 */
export async function startS3(folder: string): Promise<S3Server | undefined> {
  if (process.env.S3_TEST_URL) return { url: process.env.S3_TEST_URL, close: async () => undefined }
  const files = path.join(folder, 'files')
  await mkdir(files, { recursive: true })
  const address = `127.0.0.1:${await findFreePort()}`
  const child = spawn('versitygw', ['--port', address, '--access', access, '--secret', secret, 'posix', files], {
    stdio: 'ignore',
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const started = await new Promise<boolean>((resolve) => {
    child.once('spawn', () => resolve(true))
    child.once('error', () => resolve(false))
  })
  if (!started) return undefined
  await makeBucket(`http://${address}`)
  return {
    url: `s3://${access}:${encodeURIComponent(secret)}@${address}/${bucket}?tls=false`,
    async close() {
      child.kill('SIGKILL')
      await ended
    },
  }
}

async function makeBucket(endpoint: string) {
  const credentials = { accessKeyId: access, secretAccessKey: secret }
  const s3 = new S3Client({ endpoint, region: 'us-east-1', credentials, forcePathStyle: true })
  await eventually(() => s3.send(new CreateBucketCommand({ Bucket: bucket })))
  s3.destroy()
}
