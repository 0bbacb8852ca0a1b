import { isStorable } from '../../http/body/fields.ts'
import { HttpError, restrictedAccount } from '../../http/errors.ts'
import { type Caller, type Route, route } from '../../http/route.ts'
import type { SoughtWorkspace } from '../../store/postgres/accounts/workspaces.ts'
import type { Counters } from '../../throttle/counters.ts'
import type { Throttle } from '../../throttle/throttle.ts'
import { type Batch, describeFault, readBatch, rejectItem } from './batch.ts'
import type { Rounds } from './claim-batches.ts'
import { eventsBatch, labelsBatch, ping } from './descriptions.ts'
import type { FaultLog } from './error-log.ts'
import type { Item } from './event.ts'
import { type ModelCheck, modelsPerWorkspaceMax } from './models.ts'
import { type Kept, keepItems } from './writer.ts'

/**
 * Events of deployed models, many in one request. Each goes the same way: is it right, whose model is it, may it send that
 * much now, is it the first of its prediction id, into the open blocks, and an answer once the queue has them.
 */
export type Deps = {
  models: ModelCheck
  throttle: Throttle
  rounds: Rounds
  counters: Counters
  faultLog: FaultLog
  onAccepted(events: number): void
}

/** So that a request of fifty thousand bad items is not answered with as many messages. */
const faultsShownMax = 1_000
const faultsInMessageMax = 10

/** Items of one model. */
type Group = { workspaceName: string; modelName: string; items: Item[]; places: number[] }

/** A group whose workspace may be written to. */
type Target = Group & { workspace: SoughtWorkspace; modelId: bigint }

export function createMonitoringRoutes({ models, throttle, rounds, counters, faultLog, onAccepted }: Deps): Route[] {
  /**
   * The workspaces of a batch. When the key may use none of them, the request is refused; else items of others are rejected,
   * as what is wrong otherwise.
   */
  async function findWorkspaces(batch: Batch, groups: Group[], { userId }: Caller) {
    const found = await Promise.all(groups.map(async (it) => await models.workspace(userId, it.workspaceName)))
    const usable: (Group & { workspace: SoughtWorkspace })[] = []
    let refusal: HttpError | undefined
    for (const [at, group] of groups.entries()) {
      const workspace = found[at]
      if (workspace && !workspace.isWithheld) {
        usable.push({ ...group, workspace })
        continue
      }
      refusal = workspace ? restrictedAccount() : unknownWorkspace(group.workspaceName)
      for (const place of group.places) rejectItem(batch, place, [{ field: 'workspaceName', msg: refusal.message }])
    }
    if (refusal && usable.length === 0) throw refusal
    return usable
  }

  async function findModels(batch: Batch, groups: (Group & { workspace: SoughtWorkspace })[]): Promise<Target[]> {
    const found = await Promise.all(groups.map(async (it) => await models.model(it.workspace.id, it.modelName)))
    return groups.flatMap((group, at) => {
      const modelId = found[at]
      if (modelId !== undefined) return { ...group, modelId }
      const fault = { field: 'modelName', msg: `the workspace has ${modelsPerWorkspaceMax} models, as many as it may` }
      for (const place of group.places) rejectItem(batch, place, [fault])
      return []
    })
  }

  async function admit(targets: Target[], caller: Caller) {
    const admitted: Target[] = []
    try {
      for (const target of targets) {
        const charged = { id: target.modelId, limits: target.workspace.limits }
        const waiting = throttle.admit('events', charged, caller, target.items.length)
        if (waiting) await waiting
        admitted.push(target)
      }
    } catch (error) {
      giveBack(admitted, caller)
      throw error
    }
  }

  function giveBack(targets: Target[], { keyId }: Caller) {
    for (const { modelId, items } of targets) {
      throttle.giveBack({ type: 'events', experimentId: modelId, keyId, count: items.length })
    }
  }

  /** What was wrong is written down for workspaces that the key may use; the others are not its to write to. */
  async function noteFaults({ faults, raw }: Batch, call: string, { userId }: Caller) {
    for (const fault of faults.slice(0, faultsShownMax)) {
      const { workspaceName, modelName, predictionId } = (raw[fault.index] ?? {}) as Record<string, unknown>
      // A name that no workspace can have is not looked up.
      if (typeof workspaceName !== 'string' || !isStorable(workspaceName)) continue
      const workspace = await models.workspace(userId, workspaceName)
      if (!workspace || workspace.isWithheld) continue
      const sample = typeof predictionId === 'string' && predictionId !== '' ? predictionId : `[${fault.index}]`
      const name = typeof modelName === 'string' ? modelName.slice(0, 1_000) : ''
      faultLog.add({
        workspaceId: workspace.id,
        modelName: toStorable(name),
        call,
        fault: describeFault(fault),
        sample: toStorable(sample),
      })
    }
  }

  async function take(batch: Batch, call: string, mayReject: boolean, caller: Caller) {
    const refuse = () => {
      if (!mayReject && batch.faults.length > 0) throw toRefusal(batch)
    }
    refuse()
    const groups = await findWorkspaces(batch, toGroups(batch), caller)
    refuse()
    const targets = await findModels(batch, groups)
    refuse()
    await admit(targets, caller)
    const kept = targets.flatMap(({ items, modelId }) => items.map((item): Kept => ({ item, modelId })))
    const { isNew, labels } = await keepItems(rounds, kept).catch((error) => {
      giveBack(targets, caller)
      throw error
    })
    let accepted = 0
    let at = 0
    for (const { modelId, items } of targets) {
      let isFirst = 0
      for (const _ of items) if (isNew[at++]) isFirst++
      counters.events(modelId, isFirst, items.length - isFirst)
      accepted += isFirst
    }
    onAccepted(accepted)
    if (batch.faults.length > 0) await noteFaults(batch, call, caller)
    return {
      msg: 'Saved' as const,
      accepted,
      duplicates: kept.length - accepted,
      rejected: batch.rejected.size,
      labels,
      faults: batch.faults.slice(0, faultsShownMax),
    }
  }

  return [
    route({ ...ping, handle: () => ({ msg: 'Ok' }) }),
    route({
      ...eventsBatch,
      handle: ({ body, query, caller }) =>
        take(readBatch(body, false), 'events/batch', query.enforceValidation !== true, caller),
    }),
    route({
      ...labelsBatch,
      handle: ({ body, query, caller }) =>
        take(readBatch(body, true), 'labels/batch', query.enforceValidation !== true, caller),
    }),
  ]
}

export function unknownWorkspace(name: string): HttpError {
  return new HttpError('workspaceUnknown', `There is no workspace "${name.slice(0, 200)}" that this key may use.`)
}

function toRefusal({ faults, rejected, raw }: Batch): HttpError {
  const shown = faults.slice(0, faultsInMessageMax).map((it) => `[${it.index}] ${describeFault(it)}`)
  const more = faults.length > shown.length ? `; and ${faults.length - shown.length} more, see data` : ''
  return new HttpError(
    'eventsWrong',
    `${rejected.size} of ${raw.length} items are wrong, so nothing of this request was kept: ${shown.join('; ')}${more}`,
    { data: faults.slice(0, faultsShownMax) },
  )
}

/** By model; the items of one mostly come together. */
function toGroups({ items, places }: Batch): Group[] {
  const groups = new Map<string, Group>()
  let last: Group | undefined
  for (let at = 0; at < items.length; at++) {
    const item = items[at] as Item
    const { workspaceName, modelName } = item
    if (last?.modelName !== modelName || last.workspaceName !== workspaceName) {
      const id = JSON.stringify([workspaceName, modelName])
      last = groups.get(id) ?? { workspaceName, modelName, items: [], places: [] }
      groups.set(id, last)
    }
    last.items.push(item)
    last.places.push(places[at] as number)
  }
  return [...groups.values()]
}

/** What was sent may be anything. */
const toStorable = (text: string) => text.toWellFormed().replaceAll('\0', '\ufffd')
