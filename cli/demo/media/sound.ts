const rate = 8_000
const noteSeconds = 0.08

/** Losses as notes, the higher the loss the higher the note, in a WAV file; a loss that is no number is silence. */
export function toSound(losses: number[]): Buffer {
  const perNote = Math.round(rate * noteSeconds)
  const samples = Buffer.alloc(losses.length * perNote * 2)
  let phase = 0
  for (const [at, loss] of losses.entries()) {
    const hertz = Number.isFinite(loss) ? Math.min(2_000, 220 * 2 ** Math.max(0, loss)) : 0
    for (let it = 0; it < perNote; it++) {
      phase += (2 * Math.PI * hertz) / rate
      const value = hertz === 0 ? 0 : 0.25 * Math.sin(phase)
      samples.writeInt16LE(Math.round(value * 32_767), (at * perNote + it) * 2)
    }
  }
  const header = Buffer.alloc(44)
  header.write('RIFF', 0)
  header.writeUInt32LE(36 + samples.length, 4)
  header.write('WAVEfmt ', 8)
  header.writeUInt32LE(16, 16)
  header.writeUInt16LE(1, 20)
  header.writeUInt16LE(1, 22)
  header.writeUInt32LE(rate, 24)
  header.writeUInt32LE(rate * 2, 28)
  header.writeUInt16LE(2, 32)
  header.writeUInt16LE(16, 34)
  header.write('data', 36)
  header.writeUInt32LE(samples.length, 40)
  return Buffer.concat([header, samples])
}
