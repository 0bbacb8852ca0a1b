/** @param bytes each is two digits */
export function randomHex(bytes: number): string {
  const drawn = crypto.getRandomValues(new Uint8Array(bytes))
  return Array.from(drawn, (it) => it.toString(16).padStart(2, '0')).join('')
}
