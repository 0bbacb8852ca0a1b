/**
 * The slot of a key in a Redis Cluster: one of 16,384, by the CRC16 of the key's hash tag, which stands in braces. All keys of
 * a queue must be in one slot, so each queue has a hash tag of its own.
 */
const slotCount = 16_384

export function toSlot(key: string): number {
  const tag = /\{([^}]+)\}/.exec(key)?.[1] ?? key
  return crc16(Buffer.from(tag)) % slotCount
}

/** CRC-16/XMODEM, as the cluster specification of Redis has it. */
function crc16(bytes: Buffer): number {
  let crc = 0
  for (const byte of bytes) {
    crc ^= byte << 8
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff
  }
  return crc
}

/** Multiples of it, as fractions, divide a circle evenly however many they are. */
const golden = 0.618_033_988_749_895
const nearby = slotCount / 64

/**
 * The hash tag of a shard of a queue. The shards of a queue are in slots far from each other, so that they are on different
 * masters however many there are. The first shards keep their slots when more are added.
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
