/**
 * How many entries pages of this origin could not send when they closed. Nobody reads the log of a page that is closed, so the
 * next page tells.
 */
const place = 'svc-lost-entries'

export function addLost(count: number) {
  try {
    localStorage.setItem(place, String(Number(localStorage.getItem(place) ?? 0) + count))
  } catch {
    // A browser that keeps nothing: the log has it.
  }
}

/** Answers how many there are, once. */
export function takeLost(): number {
  try {
    const count = Number(localStorage.getItem(place) ?? 0)
    localStorage.removeItem(place)
    return count
  } catch {
    return 0
  }
}
