import type { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { createMeasure, type ObjectStore, storeAway } from './object-store.ts'
import { parseS3Url } from './s3-url.ts'

/** S3 allows 10,000 parts per object: 78 GiB with this part size. */
const partBytes = 8 * 1024 * 1024
/** Parts of one upload in memory while they are sent. */
const partsAtOnce = 2
/** No running upload is that old. */
const abandonedAfterMs = 24 * 60 * 60_000
const connectWaitMs = 2_000
const silenceMsMax = 30_000

/**
 * Stores objects in a bucket of any S3-compatible store. If a part of an upload fails, the whole upload is aborted. Uploads of a
 * killed process are aborted at a later start, a day after they began.
 */
export async function openS3(url: string, setting: string): Promise<ObjectStore> {
  const { bucket, prefix, ...client } = parseS3Url(url, setting)
  const s3 = new S3Client({
    ...client,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    requestHandler: { connectionTimeout: connectWaitMs, requestTimeout: silenceMsMax },
  })
  const where = (key: string) => ({ Bucket: bucket, Key: prefix + key })
  const check = async () => {
    await s3.send(new HeadBucketCommand({ Bucket: bucket })).catch(rethrowAway)
  }
  try {
    await s3.send(new HeadBucketCommand({ Bucket: bucket }))
    await abortAbandoned()
  } catch (error) {
    s3.destroy()
    throw new Error(explainError(error, { host: new URL(url).host, bucket, setting }), { cause: error })
  }

  async function abortAbandoned() {
    // Not every S3-compatible server can list uploads; a lifecycle rule of the bucket may delete them instead.
    const { Uploads = [] } = await s3
      .send(new ListMultipartUploadsCommand({ Bucket: bucket, Prefix: prefix }))
      .catch(() => ({ Uploads: [] }))
    for (const { Key, UploadId, Initiated } of Uploads) {
      if (Date.now() - (Initiated?.getTime() ?? Number.POSITIVE_INFINITY) < abandonedAfterMs) continue
      await s3.send(new AbortMultipartUploadCommand({ Bucket: bucket, Key, UploadId })).catch(() => undefined)
    }
  }

  return {
    async put(key, content) {
      const { through, result } = createMeasure()
      let contentError: unknown
      content.once('error', (error) => {
        contentError = error
        through.destroy(error)
      })
      const upload = new Upload({
        client: s3,
        params: { ...where(key), Body: content.pipe(through) },
        partSize: partBytes,
        queueSize: partsAtOnce,
      })
      try {
        await upload.done()
        return result()
      } catch (error) {
        content.destroy()
        through.destroy()
        throw contentError ?? toError(error)
      }
    },

    async get(key, range) {
      const Range = range && `bytes=${range.start}-${range.end}`
      const { Body } = await s3.send(new GetObjectCommand({ ...where(key), Range })).catch(rethrowAway)
      return Body as Readable
    },

    async delete(key) {
      await s3.send(new DeleteObjectCommand(where(key))).catch(rethrowAway)
    },

    async *list(start) {
      let ContinuationToken: string | undefined
      do {
        const page = await s3
          .send(new ListObjectsV2Command({ Bucket: bucket, Prefix: prefix + start, ContinuationToken }))
          .catch(rethrowAway)
        for (const { Key = '', Size = 0, ETag } of page.Contents ?? []) {
          yield { key: Key.slice(prefix.length), bytes: Size, etag: ETag }
        }
        ContinuationToken = page.NextContinuationToken
      } while (ContinuationToken)
    },

    check,

    async close() {
      s3.destroy()
    },
  }
}

function explainError(
  error: unknown,
  { host, bucket, setting }: { host: string; bucket: string; setting: string },
): string {
  const status = error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined
  if (status === 404)
    return `The object store at ${host} has no bucket "${bucket}". Create it, or set another one in ${setting}.`
  if (status === 403) return `The object store at ${host} refuses the key of ${setting} for the bucket "${bucket}".`
  const reason = error instanceof Error && error.message ? error.message : String(error)
  return `The object store at ${host} cannot be used: ${reason}`
}

function rethrowAway(error: unknown): never {
  throw toError(error)
}

/** 4xx is our own error; 5xx, 429 and no answer mean that the store is unavailable. */
function toError(error: unknown): unknown {
  const status = error instanceof S3ServiceException ? (error.$metadata.httpStatusCode ?? 0) : 0
  return status >= 400 && status < 500 && status !== 429 ? error : storeAway(error)
}
