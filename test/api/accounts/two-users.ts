import { createClient, type TestClient } from '../../kit/http/client.ts'
import { createUser, openTestService, storesWith } from '../../kit/service.ts'

export type TwoUsers = Awaited<ReturnType<typeof openTwoUsers>>

/** The service with a second user, of another organization, who must see nothing of the first one's. */
export async function openTwoUsers(options?: Parameters<typeof openTestService>[0]) {
  const service = await openTestService(options)
  const user = await createUser({ ...storesWith('postgres'), ...options?.stores })
  const stranger: TestClient & { workspaceName: string } = {
    ...createClient(service.url, user),
    workspaceName: user.workspaceName,
  }
  return { ...service, stranger }
}
