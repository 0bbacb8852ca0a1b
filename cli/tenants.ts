import { Counter, Gauge, type Registry } from 'prom-client'
import { type AtOnce, createTenants, type TenantSettings } from '../throttle/tenants.ts'
import type { Settings } from './settings.ts'

type Options = {
  find: TenantSettings['find']
  settings: Pick<Settings, 'tenantLimits'>
  metricsRegistry: Registry
  onError(error: unknown): void
}

/** The limits of tenants in this process, with their metrics. These name no tenant: `GET /workspace/usage` does. */
export function openTenants({ find, settings, metricsRegistry, onError }: Options) {
  const refused = new Counter({
    name: 'svc_tenant_refused_total',
    help: 'Requests over a limit of a workspace or an organization, by the limit',
    labelNames: ['limit'],
    registers: [metricsRegistry],
  })
  const tenants = createTenants({
    find,
    defaults: settings.tenantLimits,
    onRefused: (limit) => refused.inc({ limit }),
    onError,
  })
  new Gauge({
    name: 'svc_tenant_in_use',
    help: 'Live streams, exports and running queries of all tenants, by the limit',
    labelNames: ['limit'] satisfies string[],
    registers: [metricsRegistry],
    collect() {
      const limits: AtOnce[] = ['streamsMax', 'exportsMax', 'queriesMax']
      for (const limit of limits) this.set({ limit }, tenants.inUseOfAll(limit))
    },
  })
  new Gauge({
    name: 'svc_tenant_queries_waiting',
    help: 'Queries that wait for their turn within the limit of their tenant',
    registers: [metricsRegistry],
    collect() {
      this.set(tenants.queriesWaiting())
    },
  })
  return { tenants, onThrottled: () => refused.inc({ limit: 'pointsPerMinute' }) }
}
