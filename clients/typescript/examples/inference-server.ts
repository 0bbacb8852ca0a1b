import { randomUUID } from 'node:crypto'
import Fastify from 'fastify'
// In a program of your own: import { MonitoringLogger } from '@svc/client'
import { MonitoringLogger } from '../src/node/index.ts'

/**
 * An inference server that logs what it predicts, and what turned out to be true.
 *
 *     SVC_API_KEY=<key> node examples/inference-server.ts
 *     curl localhost:8000/predict -H 'content-type: application/json' -d '{"amount": 120.5, "country": "NL"}'
 *     curl localhost:8000/outcome -H 'content-type: application/json' -d '{"predictionId": "<id>", "fraud": true}'
 */
const monitoring = new MonitoringLogger({ modelName: 'fraud', modelVersion: '1.0.0' })
const app = Fastify()

const payment = {
  type: 'object',
  required: ['amount', 'country'],
  properties: { amount: { type: 'number' }, country: { type: 'string' } },
} as const

app.post<{ Body: { amount: number; country: string } }>('/predict', { schema: { body: payment } }, async ({ body }) => {
  const predictionId = randomUUID()
  const probability = Math.min(1, body.amount / 1000)
  const fraud = probability > 0.5
  // Returns at once: nobody waits for the service, or for its absence.
  monitoring.logEvent({ predictionId, inputFeatures: body, outputFeatures: { value: fraud, probability } })
  return { predictionId, fraud }
})

const outcome = {
  type: 'object',
  required: ['predictionId', 'fraud'],
  properties: { predictionId: { type: 'string' }, fraud: { type: 'boolean' } },
} as const

app.post<{ Body: { predictionId: string; fraud: boolean } }>(
  '/outcome',
  { schema: { body: outcome } },
  async ({ body }) => {
    monitoring.logLabel({ predictionId: body.predictionId, labels: { value: body.fraud } })
    return {}
  },
)

// Requests that are under way are finished first, then what they logged is sent.
app.addHook('onClose', () => monitoring.end())
process.once('SIGTERM', () => app.close())

console.log(`listening at ${await app.listen({ port: Number(process.env.PORT ?? 8000) })}`)
