/** @throws Error with the answer, unless it is 200 */
export async function postJson(url: string, body: object, headers: Record<string, string> = {}): Promise<unknown> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  if (answer.status !== 200) throw new Error(`${url} answered ${answer.status}: ${await answer.text()}`)
  return await answer.json()
}
