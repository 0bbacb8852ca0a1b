import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { findFreePort } from '../../../store/embedded/free-port.ts'
import { ProgramMissing, startProcess, waitUntilReady } from '../processes/process.ts'

const access = 'testaccess'
const secret = 'test/secret+key'
const bucket = 'svc-test'

type S3Server = { url: string; close(): Promise<void> }

/**
 * An S3 server with an empty bucket: the bucket at S3_TEST_URL (in the form of OBJECTS_URL), else our own `versitygw` if it
 * is installed, else undefined.
 */
export async function startS3(folder: string): Promise<S3Server | undefined> {
  if (process.env.S3_TEST_URL) return { url: process.env.S3_TEST_URL, close: async () => undefined }
  const files = path.join(folder, 'files')
  await mkdir(files, { recursive: true })
  const address = `127.0.0.1:${await findFreePort()}`
  try {
    const args = ['--port', address, '--access', access, '--secret', secret, 'posix', files]
    const gateway = startProcess({ file: 'versitygw', args, environment: {} })
    await waitUntilReady('versitygw', gateway, () => makeBucket(`http://${address}`))
    return {
      url: `s3://${access}:${encodeURIComponent(secret)}@${address}/${bucket}?tls=false`,
      close: async () => void (await gateway.stop('SIGKILL')),
    }
  } catch (error) {
    if (error instanceof ProgramMissing) return undefined
    throw error
  }
}

async function makeBucket(endpoint: string) {
  const credentials = { accessKeyId: access, secretAccessKey: secret }
  const s3 = new S3Client({ endpoint, region: 'us-east-1', credentials, forcePathStyle: true })
  await s3.send(new CreateBucketCommand({ Bucket: bucket })).finally(() => s3.destroy())
}
