import fastify from 'fastify'

/** The cost of HTTP and JSON alone: a route that parses a point, answers and stores nothing. */
const app = fastify()
app.get('/readyz', () => 'ok')
app.post('/api/rest/v2/write/experiment/metric', () => ({ msg: 'Saved' }))
await app.listen({ host: '127.0.0.1', port: Number(process.env.SVC_PORT) })
process.once('SIGTERM', () => process.exit())
