import { constants } from 'node:zlib'
import compress from '@fastify/compress'
import type { FastifyInstance } from 'fastify'

/** Below this an answer fits a few packets, and compressing it costs more than it saves. */
const bytesMin = 4 * 1024

/**
 * Up to this an answer that is there as a whole is compressed at once, which holds others up for 1 to 3 ms at most. As a stream, in a
 * thread of its own, it takes more CPU, waits for a core once more, and its text stays in memory until V8 collects all of the heap.
 */
const bytesAtOnceMax = 128 * 1024

/**
 * How a route compresses its answers for callers that accept it: with the fastest level of each encoding. Measured on 5 MB of
 * series: zstd 0.38 of the bytes in 31 ms, brotli 0.40 in 64, gzip 0.44 in 94; the usual levels take 2 to 8 times as long for 0.01
 * to 0.04 less.
 *
 * Each route names all of it: what the library was registered with does not hold for a route with options of its own.
 */
export const compressed = {
  threshold: bytesMin,
  syncThreshold: bytesAtOnceMax,
  encodings: ['zstd', 'br', 'gzip'] as ('zstd' | 'br' | 'gzip')[],
  customTypes: /^application\/json/,
  brotliOptions: { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } },
  // The library gives these to gzip, which reads the level, and to zstd, which reads the parameters.
  zlibOptions: { level: 1, params: { [constants.ZSTD_c_compressionLevel]: 1 } },
}

/** Lets routes that ask for it (`compress: compressed`) compress their answers. */
export async function addCompression(app: FastifyInstance) {
  await app.register(compress, { global: false, globalDecompression: false })
}
