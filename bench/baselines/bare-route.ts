import fastify from 'fastify'

/** What HTTP and JSON alone cost: a route that parses a point and answers, and keeps nothing. */
const app = fastify()
app.get('/readyz', () => 'ok')
app.post('/api/rest/v2/write/experiment/metric', () => ({ msg: 'Saved' }))
await app.listen({ host: '127.0.0.1', port: Number(process.env.SVC_PORT) })
process.once('SIGTERM', () => process.exit())
