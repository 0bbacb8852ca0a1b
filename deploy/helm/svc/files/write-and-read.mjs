// "helm test": writes one point to ingest and reads it back from the api, without dependencies.
const { INGEST_URL, API_URL, SVC_API_KEY, WAIT_SECONDS = '60' } = process.env
const prefix = '/api/rest/v2'

async function call(url, path, body) {
  const answer = await fetch(url + prefix + path, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: SVC_API_KEY, 'content-type': 'application/json' },
    ...(body && { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(10_000),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${text}`)
  return JSON.parse(text)
}

try {
  const { defaultWorkspaceName: workspaceName } = await call(API_URL, '/account-details')
  const { experimentKey } = await call(API_URL, '/write/experiment/create', { workspaceName, projectName: 'helm-test' })
  const value = Math.random()
  const point = { metricName: 'helm_test', metricValue: value, step: 1, timestamp: Date.now() }
  await call(INGEST_URL, '/write/experiment/metric', { experimentKey, ...point })
  console.log(`Written: ${value}, to the experiment ${experimentKey}`)

  const query = new URLSearchParams({ experimentKey, metricName: 'helm_test' })
  const deadline = Date.now() + Number(WAIT_SECONDS) * 1_000
  for (;;) {
    const { metrics } = await call(API_URL, `/experiment/metrics/get-metric?${query}`)
    if (metrics.length > 0) {
      if (metrics.length !== 1 || Number(metrics[0].metricValue) !== value) {
        throw new Error(`read back ${JSON.stringify(metrics)}`)
      }
      break
    }
    if (Date.now() > deadline) throw new Error(`nothing to read after ${WAIT_SECONDS} s: do the workers run?`)
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  console.log('Read back: the same, once.')
} catch (error) {
  console.error(`It does not work: ${error.cause?.message ?? error.message}`)
  process.exit(1)
}
