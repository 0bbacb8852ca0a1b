import { afterAll, beforeAll, expect, it } from 'vitest'
import { loadDigits, splitSamples } from '../../cli/demo/digits.ts'
import { eventually } from '../kit/eventually.ts'
import { openTestService, uniqueName } from '../kit/service.ts'

/**
 * A classifier of handwritten digits in production, on the images that the demo trains with (cli/demo/README.md has their
 * source and licence): what it was trained on is uploaded as the reference, the other images come in as events, hour by hour,
 * their labels later. After two hours the scanner gets dirty: four pixels are darker than they were.
 */
const pixels = 64
const dirty = ['p19', 'p27', 'p35', 'p43']
const hour = 3_600_000
const start = Math.floor(Date.now() / hour) * hour - 5 * hour
const hours = 3
/**
 * An hour has 300 images. Over 30 bins PSI is then expected at (30 - 1) (1/300 + 1/899) = 0.13 without any drift: 0.2, which
 * is meant for large samples, would be met by chance in one of 192 comparisons.
 */
const psiThreshold = 0.3

type Image = { ink: number[]; digit: number }

function toImages({ features, labels, count }: ReturnType<typeof loadDigits>): Image[] {
  return Array.from({ length: count }, (_, at) => ({
    ink: Array.from(features.subarray(at * pixels, (at + 1) * pixels), (it) => Math.round(it * 16)),
    digit: labels[at] as number,
  }))
}

/** Tells a digit by the mean image that it is closest to. */
function train(images: Image[]) {
  const centers = Array.from({ length: 10 }, (_, digit) => {
    const own = images.filter((it) => it.digit === digit)
    return Array.from(
      { length: pixels },
      (_, at) => own.reduce((sum, it) => sum + (it.ink[at] as number), 0) / own.length,
    )
  })
  return (ink: number[]) => {
    const distances = centers.map((center) => center.reduce((sum, it, at) => sum + (it - (ink[at] as number)) ** 2, 0))
    return distances.indexOf(Math.min(...distances))
  }
}

const nameOf = (pixel: number) => `p${String(pixel).padStart(2, '0')}`
const makeDirty = (ink: number[]) => ink.map((it, at) => (dirty.includes(nameOf(at)) ? Math.min(16, it + 7) : it))

let service: Awaited<ReturnType<typeof openTestService>>
beforeAll(async () => {
  service = await openTestService()
})
afterAll(() => service?.close())

it('drift is found in the features and the hour where it is, and nowhere else; and what it did to the quality', async () => {
  const modelName = uniqueName('digits')
  const place = { workspaceName: service.workspaceName, modelName, modelVersion: '1.0.0' }
  const split = splitSamples(loadDigits(), 0.5, 7)
  const reference = toImages(split.train)
  const live = toImages(split.validate)
  const classify = train(reference)

  const header = ['timestamp', 'predictionId', ...Array.from({ length: pixels }, (_, at) => `feature_${nameOf(at)}`)]
  const lines = reference.map(({ ink }, at) => [start - hour, `training-${at}`, ...ink].join(','))
  const form = new FormData()
  for (const [name, value] of Object.entries({ ...place, datasetName: uniqueName('training') }))
    form.append(name, value)
  form.append('file', new Blob([[header.join(','), ...lines].join('\n')], { type: 'text/csv' }), 'training.csv')
  const uploaded = await fetch(`${service.url}/mpm/v2/dataset/events/csv`, {
    method: 'POST',
    headers: { authorization: service.apiKey },
    body: form,
  })
  expect(uploaded.status, await uploaded.text()).toBe(200)

  const perHour = Math.ceil(live.length / hours)
  const events = live.map(({ ink, digit }, at) => {
    const inHour = Math.floor(at / perHour)
    const seen = inHour === 2 ? makeDirty(ink) : ink
    return {
      event: {
        ...place,
        predictionId: `live-${at}`,
        timestamp: start + inHour * hour + (at % perHour) * 1_000,
        features: Object.fromEntries(seen.map((it, pixel) => [nameOf(pixel), it])),
        prediction: { value: String(classify(seen)) },
      },
      label: { ...place, predictionId: `live-${at}`, timestamp: start + 4 * hour, labels: { value: String(digit) } },
      isRight: classify(seen) === digit,
      inHour,
    }
  })
  const sent = await service.client.post('/mpm/v2/events/batch', { data: events.map((it) => it.event) })
  expect(sent.body, sent.text).toMatchObject({ accepted: live.length })
  const labelled = await service.client.post('/mpm/v2/labels/batch', { data: events.map((it) => it.label) })
  expect(labelled.body, labelled.text).toMatchObject({ accepted: live.length })

  const query = new URLSearchParams({
    workspaceName: service.workspaceName,
    modelName,
    from: String(start),
    to: String(start + hours * hour),
    interval: String(hour),
  })
  type Feature = { name: string; part: string; drifted: boolean | null; status: string }
  type Window = { events: number; drifted: boolean; features: Feature[] }
  const windows = await eventually(async () => {
    const answer = await service.client.get(`/mpm/v2/drift?${query}&measure=psi&psiThreshold=${psiThreshold}`)
    expect(answer.status, answer.text).toBe(200)
    const found = answer.body.windows as Window[]
    expect(answer.body.reference).toMatchObject({ events: reference.length })
    expect(found.reduce((sum, it) => sum + it.events, 0)).toBe(live.length)
    for (const { features } of found) {
      expect(features.filter((it) => it.part === 'feature' && it.status === 'compared')).toHaveLength(pixels)
    }
    return found
  }, 60_000)
  const drifted = windows.map(({ features }) => features.filter((it) => it.drifted).map((it) => it.name))
  expect(drifted).toEqual([[], [], dirty])

  const quality = await eventually(async () => {
    const answer = await service.client.get(`/mpm/v2/labels/quality?${query}`)
    expect(answer.status, answer.text).toBe(200)
    const found = answer.body.windows as { labelled: number; accuracy: number }[]
    expect(found.reduce((sum, it) => sum + it.labelled, 0)).toBe(live.length)
    return found
  }, 60_000)
  const right = [0, 1, 2].map((at) => {
    const own = events.filter((it) => it.inHour === at)
    return own.filter((it) => it.isRight).length / own.length
  })
  for (const [at, { accuracy }] of quality.entries()) expect(accuracy).toBeCloseTo(right[at] as number, 9)
})
