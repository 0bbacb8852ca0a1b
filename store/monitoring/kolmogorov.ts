/**
 * The p-value of a Kolmogorov-Smirnov distance: the probability that two samples of one distribution are at least so far
 * apart. The limit for large samples, `scipy.special.kolmogorov(sqrt(n m / (n + m)) * distance)`.
 */
export function toPValue(distance: number, n: number, m: number): number {
  const x = Math.sqrt((n * m) / (n + m)) * distance
  if (x <= 0) return 1
  // Two series: one converges for small x, the other for large x.
  if (x < 1) {
    let sum = 0
    for (let k = 1; k <= 20; k++) sum += Math.exp((-((2 * k - 1) ** 2) * Math.PI ** 2) / (8 * x ** 2))
    return Math.min(1, Math.max(0, 1 - (Math.sqrt(2 * Math.PI) / x) * sum))
  }
  let sum = 0
  for (let k = 1; k <= 20; k++) sum += (k % 2 === 1 ? 1 : -1) * Math.exp(-2 * k ** 2 * x ** 2)
  return Math.min(1, Math.max(0, 2 * sum))
}
