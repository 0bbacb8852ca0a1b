/**
 * The slot of a key in a Redis Cluster: one of 16,384, by the CRC16 of the key's hash tag, the part in braces. All keys of a
 * queue must be in one slot, so each queue has its own hash tag.
 */
const slotCount = 16_384

export function toSlot(key: string): number {
  const tag = /\{([^}]+)\}/.exec(key)?.[1] ?? key
  return crc16(Buffer.from(tag)) % slotCount
}

/** CRC-16/XMODEM, as in the cluster specification of Redis. */
function crc16(bytes: Buffer): number {
  let crc = 0
  for (const byte of bytes) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff
  }
  return crc
}

/** The golden ratio: the fractional parts of its multiples are spread evenly over 0 to 1. */
const golden = 0.618_033_988_749_895
const nearby = slotCount / 64

/**
 * The hash tag of a shard of a queue. The shards of a queue are in distant slots, so that they are on different masters. Shards
 * keep their slots when more are added.
 */
export function toHashTag(queue: string, shard: number): string {
  const first = `${queue}-${shard}`
  const wanted = Math.floor((toSlot(queue) / slotCount + shard * golden) * slotCount) % slotCount
  for (let attempt = 0; attempt < 10_000; attempt++) {
    const tag = `${first}.${attempt}`
    if ((toSlot(tag) - wanted + slotCount) % slotCount < nearby) return `{${tag}}`
  }
  return `{${first}}`
}
