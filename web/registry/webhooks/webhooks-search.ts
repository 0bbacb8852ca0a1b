const states = ['pending', 'delivered', 'failed', 'cancelled'] as const

/** Which deliveries the page of webhooks shows: of one address, in one state. */
export type WebhooksSearch = { url?: string; state?: (typeof states)[number] }

export const parseWebhooksSearch = ({ url, state }: Record<string, unknown>): WebhooksSearch => ({
  ...(url !== undefined && url !== '' && { url: String(url) }),
  ...(states.includes(state as 'failed') && { state: state as 'failed' }),
})

export { states as deliveryStates }
