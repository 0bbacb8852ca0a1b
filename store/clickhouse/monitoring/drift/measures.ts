/**
 * The measures of the counts of bins: PSI, Jensen-Shannon, Kullback-Leibler and total variation over the shares of bins. Missing values
 * are a bin too; a bin that is empty on both sides is left out. All are null when a side has no events.
 */
export type Measures = {
  psi: number | null
  jensenShannon: number | null
  /** Of the window from the reference, natural logarithm. */
  kullbackLeibler: number | null
  /** Half the sum of the differences of shares: the earth mover's distance if all bins are equally far from each other. */
  totalVariation: number | null
}

const noMeasures: Measures = { psi: null, jensenShannon: null, kullbackLeibler: null, totalVariation: null }

/** A bin of the reference and of a window. */
export type BinCount = { reference: number; current: number }

export function toMeasures(bins: BinCount[]): Measures {
  const used = bins.filter((it) => it.reference + it.current > 0)
  const [reference, current] = [toShares(used.map((it) => it.reference)), toShares(used.map((it) => it.current))]
  if (!reference || !current) return noMeasures
  const [filledReference, filledCurrent] = [fill(reference), fill(current)]
  const sum = (term: (p: number, q: number) => number, p = reference, q = current) =>
    p.reduce((total, share, at) => total + term(share, q[at] as number), 0)
  const divergence = sum((p, q) => ofMean(p, p + q) + ofMean(q, p + q))
  return {
    psi: sum((p, q) => (p - q) * Math.log(p / q), filledReference, filledCurrent),
    jensenShannon: Math.sqrt(Math.max(divergence, 0) / 2),
    kullbackLeibler: sum((p, q) => q * Math.log(q / p), filledReference, filledCurrent),
    totalVariation: sum((p, q) => Math.abs(p - q)) / 2,
  }
}

const ofMean = (share: number, both: number) => (share > 0 ? share * Math.log((2 * share) / both) : 0)

function toShares(counts: number[]): number[] | undefined {
  const total = counts.reduce((sum, it) => sum + it, 0)
  return total === 0 ? undefined : counts.map((it) => it / total)
}

const shareLeast = 0.0001

/** A share of nothing would make a ratio infinite. It gets the share that evidently gives it. */
function fill(shares: number[]): number[] {
  const least = shares.reduce((least, it) => (it > 0 && it < least ? it : least), 1)
  const instead = least <= shareLeast ? least / 1e6 : shareLeast
  return shares.map((it) => (it > 0 ? it : instead))
}
