// Docker's health check: is this process ready for traffic? Plain JavaScript without imports, because it runs every few seconds.
const port = process.env.SVC_PORT || '8080'
const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(8_000) })
if (!answer.ok) {
  console.error(await answer.text())
  process.exit(1)
}
