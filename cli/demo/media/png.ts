import { crc32, deflateSync } from 'node:zlib'

/** A PNG of grey pixels, 0 black to 255 white, row by row. */
export function toPng(width: number, pixels: Uint8Array): Buffer {
  const height = pixels.length / width
  // Each row begins with the filter it has: none.
  const rows = Buffer.alloc(height * (width + 1))
  for (let row = 0; row < height; row++)
    rows.set(pixels.subarray(row * width, (row + 1) * width), row * (width + 1) + 1)
  const header = Buffer.alloc(13)
  header.writeUInt32BE(width, 0)
  header.writeUInt32BE(height, 4)
  // Eight bits of grey.
  header[8] = 8
  return Buffer.concat([
    Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
    toChunk('IHDR', header),
    toChunk('IDAT', deflateSync(rows)),
    toChunk('IEND', Buffer.alloc(0)),
  ])
}

function toChunk(type: string, data: Buffer): Buffer {
  const named = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const chunk = Buffer.alloc(named.length + 8)
  chunk.writeUInt32BE(data.length, 0)
  named.copy(chunk, 4)
  chunk.writeUInt32BE(crc32(named), named.length + 4)
  return chunk
}

const side = 8

/** Images of 8 x 8 pixels with ink from 0 to 1, side by side in a square, each pixel drawn as `scale` x `scale`. */
export function toSheet(images: Float64Array[], scale: number): { png: Buffer; columns: number } {
  const columns = Math.max(1, Math.ceil(Math.sqrt(images.length)))
  const rows = Math.max(1, Math.ceil(images.length / columns))
  const cell = side * scale
  const width = columns * cell
  const pixels = new Uint8Array(width * rows * cell)
  for (const [at, image] of images.entries()) {
    const [left, top] = [(at % columns) * cell, Math.floor(at / columns) * cell]
    for (let y = 0; y < cell; y++) {
      for (let x = 0; x < cell; x++) {
        const ink = image[Math.floor(y / scale) * side + Math.floor(x / scale)] ?? 0
        pixels[(top + y) * width + left + x] = Math.round(255 * ink)
      }
    }
  }
  return { png: toPng(width, pixels), columns }
}
