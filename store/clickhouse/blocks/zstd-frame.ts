const sizeBytes = [1, 2, 4, 8] as const
const dictionaryBytes = [0, 1, 2, 4] as const

/** How many bytes a frame of zstd decompresses to; undefined where it does not say so. Source: RFC 8878, 3.1.1.1. */
export function contentSize(frame: Buffer): number | undefined {
  const descriptor = frame[4] ?? 0
  const width = sizeBytes[(descriptor >> 6) as 0 | 1 | 2 | 3]
  const isSingleSegment = (descriptor & 0x20) !== 0
  const at = 5 + (isSingleSegment ? 0 : 1) + dictionaryBytes[(descriptor & 3) as 0 | 1 | 2 | 3]
  if (frame.length < at + width || (width === 1 && !isSingleSegment)) return undefined
  if (width === 8) return Number(frame.readBigUInt64LE(at))
  return frame.readUIntLE(at, width) + (width === 2 ? 256 : 0)
}
