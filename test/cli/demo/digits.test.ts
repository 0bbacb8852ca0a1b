import { expect, test } from 'vitest'
import { loadDigits, splitSamples } from '../../../cli/demo/digits.ts'

test('the digits are 1,797 images of 64 pixels with the known number of each digit', () => {
  const { features, labels, count } = loadDigits()
  expect(count).toBe(1797)
  expect(features.length).toBe(1797 * 64)
  expect(features.every((ink) => ink >= 0 && ink <= 1)).toBe(true)
  const counts = new Array(10).fill(0)
  for (const label of labels) counts[label]++
  expect(counts).toEqual([178, 182, 177, 183, 181, 182, 181, 179, 174, 180])
  // The first row of the first image, a zero, in sixteenths of ink.
  expect(Array.from(features.subarray(0, 8), (ink) => ink * 16)).toEqual([0, 0, 5, 13, 9, 1, 0, 0])
  expect(labels[0]).toBe(0)
})

test('a split keeps every image once, its label with it, and depends on nothing but the seed', () => {
  const all = loadDigits()
  const { train, validate } = splitSamples(all, 0.8, 7)
  expect([train.count, validate.count]).toEqual([1438, 359])

  const toImages = ({ features, labels, count }: typeof all) =>
    Array.from(
      { length: count },
      (_, sample) => `${labels[sample]}:${features.subarray(sample * 64, sample * 64 + 64)}`,
    )
  expect([...toImages(train), ...toImages(validate)].sort()).toEqual(toImages(all).sort())
  expect(splitSamples(all, 0.8, 7)).toEqual({ train, validate })
  expect(splitSamples(all, 0.8, 8).train.labels).not.toEqual(train.labels)
})
