/** Settles with the work, or rejects with `reason()` after the time. The work itself goes on. */
export async function withTimeout<T>(work: Promise<T>, timeoutMs: number, reason: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(reason()), timeoutMs)
  })
  return await Promise.race([work, late]).finally(() => clearTimeout(timer))
}

/** Waits for the work, at most for the time. Rejects if the work rejects. The work itself goes on. */
export async function waitAtMost(work: Promise<unknown>, timeoutMs: number): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, timeoutMs)
  })
  await Promise.race([work, late]).finally(() => clearTimeout(timer))
}
