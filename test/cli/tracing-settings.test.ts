import { describe, expect, it } from 'vitest'
import { parseSettings } from '../../cli/settings.ts'

const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }

describe('traces by the standard variables', () => {
  it('are off where nothing is said of them', () => {
    expect(parseSettings({}).tracing).toBeUndefined()
    expect(parseSettings({ OTEL_SERVICE_NAME: 'x', OTEL_TRACES_SAMPLER: 'always_on' }).tracing).toBeUndefined()
  })

  it.each([
    ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://collector:4318'],
    ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'http://collector:4318/v1/traces'],
    ['OTEL_TRACES_EXPORTER', 'otlp'],
    ['OTEL_TRACES_EXPORTER', 'console, otlp'],
  ])('are on by %s=%s', (name, value) => {
    expect(parseSettings({ [name]: value }).tracing).toMatchObject({ sampler: 'parentbased_always_on' })
  })

  it.each([
    ['OTEL_SDK_DISABLED', 'true'],
    ['OTEL_SDK_DISABLED', 'TRUE'],
    ['OTEL_TRACES_EXPORTER', 'none'],
    ['OTEL_TRACES_EXPORTER', 'zipkin'],
  ])('are off by %s=%s, also where there is a collector', (name, value) => {
    expect(parseSettings({ ...collector, [name]: value }).tracing).toBeUndefined()
  })

  it('have defaults where what a platform says does not fit', () => {
    const odd = { OTEL_TRACES_SAMPLER: 'jaeger_remote', OTEL_TRACES_SAMPLER_ARG: 'x', OTEL_BSP_SCHEDULE_DELAY: '-1' }
    expect(parseSettings({ ...collector, ...odd }).tracing).toEqual({
      sampler: 'parentbased_always_on',
      ratio: 1,
      queueSpansMax: 2_048,
      everyMs: 5_000,
      protocol: 'http/protobuf',
    })
  })
})
