import { isStorable } from '../../http/body/fields.ts'
import { HttpError, needsEditor, withheldFrom } from '../../http/errors.ts'
import type { Caller } from '../../http/route.ts'
import type { SoughtWorkspace } from '../../store/postgres/accounts/workspaces.ts'
import type { Counters } from '../../throttle/counters.ts'
import type { ChargedExperiment, Throttle } from '../../throttle/throttle.ts'
import { type Batch, describeItemError, rejectItem } from './batch.ts'
import type { ClaimBatches } from './claim-batches.ts'
import type { ErrorLog } from './error-log.ts'
import type { Item } from './event.ts'
import { type ModelCheck, tooManyModels } from './models.ts'
import { type ModelItem, storeItems } from './store-items.ts'

/**
 * A batch of events or labels takes these steps. Items of one batch may belong to many models.
 *
 * 1. Check each item (`batch.ts`, before this).
 * 2. Find the workspace and the model of each (`models.ts`).
 * 3. Charge the items to their models and to the key (`throttle/throttle.ts`).
 * 4. Add items that are the first with their prediction id to the open blocks (`store-items.ts`, `claim-batches.ts`).
 * 5. Answer after the queue has the blocks.
 *
 * Wrong items are rejected and the others stored, unless the caller wants all or nothing: then one wrong item rejects the batch.
 */
export type EventDeps = {
  models: ModelCheck
  throttle: Throttle
  claimBatches: ClaimBatches
  counters: Counters
  errorLog: ErrorLog
  onAccepted(events: number): void
}

/** The answer and the error log have no more errors than this, even if fifty thousand items are wrong. */
const errorsShownMax = 1_000
const errorsInMessageMax = 10

/** Items of one model, each with its index in the batch. */
type Group = { workspaceName: string; modelName: string; items: Item[]; indexes: number[] }

type WorkspaceGroup = Group & { workspace: SoughtWorkspace }

type ModelGroup = WorkspaceGroup & { modelId: bigint }

/** What a model's items are charged to. */
export const toCharged = ({ modelId, workspace }: Pick<ModelGroup, 'modelId' | 'workspace'>): ChargedExperiment => ({
  id: modelId,
  limits: workspace.limits,
  workspaceId: workspace.id,
  organizationId: workspace.organizationId,
  organizationLimits: workspace.organizationLimits,
})

type EventWrite = {
  batch: Batch
  caller: Caller
  /** The route, for the error log. */
  call: string
  /** True when one wrong item rejects the batch. */
  allOrNothing: boolean
}

export function createEventWrite({ models, throttle, claimBatches, counters, errorLog, onAccepted }: EventDeps) {
  /**
   * Finds the workspaces of a batch, and rejects items of those that the key may not use.
   *
   * @throws HttpError when it may use none of them
   */
  async function findWorkspaces(batch: Batch, groups: Group[], caller: Caller): Promise<WorkspaceGroup[]> {
    const found = await Promise.all(groups.map(async (it) => await models.workspace(caller, it.workspaceName)))
    const usable: WorkspaceGroup[] = []
    let error: HttpError | undefined
    groups.forEach((group, at) => {
      const workspace = found[at]
      if (workspace && workspace.refusal === null) {
        usable.push({ ...group, workspace })
        return
      }
      error = workspace ? toRefusal(workspace, caller) : unknownWorkspace(group.workspaceName)
      for (const index of group.indexes) rejectItem(batch, index, [{ field: 'workspaceName', msg: error.message }])
    })
    if (error && usable.length === 0) throw error
    return usable
  }

  /** Finds or creates the models of a batch, and rejects items of models that a workspace has no room for. */
  async function findModels(batch: Batch, groups: WorkspaceGroup[]): Promise<ModelGroup[]> {
    const found = await Promise.all(groups.map(async (it) => await models.model(it.workspace.id, it.modelName)))
    return groups.flatMap((group, at) => {
      const modelId = found[at]
      if (modelId !== undefined) return { ...group, modelId }
      for (const index of group.indexes) rejectItem(batch, index, [{ field: 'modelName', msg: tooManyModels }])
      return []
    })
  }

  /** Charges each model for its items. If one is over its limit, none is charged. */
  async function admit(groups: ModelGroup[], caller: Caller) {
    const admitted: ModelGroup[] = []
    try {
      for (const group of groups) {
        const waiting = throttle.admit('events', toCharged(group), caller, group.items.length)
        if (waiting) await waiting
        admitted.push(group)
      }
    } catch (error) {
      giveBack(admitted, caller)
      throw error
    }
  }

  function giveBack(groups: ModelGroup[], { keyId }: Caller) {
    for (const group of groups) {
      throttle.giveBack({ type: 'events', experiment: toCharged(group), keyId, count: group.items.length })
    }
  }

  async function store(groups: ModelGroup[], caller: Caller) {
    const items = groups.flatMap(({ items, modelId }) => items.map((item): ModelItem => ({ item, modelId })))
    try {
      return await storeItems(claimBatches, items)
    } catch (error) {
      giveBack(groups, caller)
      throw error
    }
  }

  /** Counts the items of each model. @returns how many of all are new */
  function count(groups: ModelGroup[], isNew: boolean[]): number {
    let accepted = 0
    let at = 0
    for (const { modelId, items } of groups) {
      let isFirst = 0
      for (const _ of items) if (isNew[at++]) isFirst++
      counters.events(modelId, isFirst, items.length - isFirst)
      accepted += isFirst
    }
    onAccepted(accepted)
    return accepted
  }

  /** Logs errors for the workspaces that the key may use, and for no others. */
  async function logErrors({ batch: { errors, raw }, call, caller }: EventWrite) {
    for (const error of errors.slice(0, errorsShownMax)) {
      const { workspaceName, modelName, predictionId } = (raw[error.index] ?? {}) as Record<string, unknown>
      // Postgres cannot be asked for such a name, and no workspace has it.
      if (typeof workspaceName !== 'string' || !isStorable(workspaceName)) continue
      const workspace = await models.workspace(caller, workspaceName)
      if (!workspace || workspace.refusal) continue
      const sample = typeof predictionId === 'string' && predictionId !== '' ? predictionId : `[${error.index}]`
      const name = typeof modelName === 'string' ? modelName.slice(0, 1_000) : ''
      errorLog.add({
        workspaceId: workspace.id,
        modelName: toStorable(name),
        call,
        fault: describeItemError(error),
        sample: toStorable(sample),
      })
    }
  }

  /** @throws HttpError `eventsWrong`, `workspaceUnknown`, `accountRestricted`, `throttled`, `unavailable` */
  return async function writeEvents(write: EventWrite) {
    const { batch, caller, allOrNothing } = write
    const refuseIfWrong = () => {
      if (allOrNothing && batch.errors.length > 0) throw wrongEvents(batch)
    }
    refuseIfWrong()
    const inWorkspaces = await findWorkspaces(batch, toGroups(batch), caller)
    refuseIfWrong()
    const groups = await findModels(batch, inWorkspaces)
    refuseIfWrong()
    await admit(groups, caller)
    const { isNew, labels } = await store(groups, caller)
    const accepted = count(groups, isNew)
    if (batch.errors.length > 0) await logErrors(write)
    return {
      msg: 'Saved' as const,
      accepted,
      duplicates: isNew.length - accepted,
      rejected: batch.rejected.size,
      labels,
      faults: batch.errors.slice(0, errorsShownMax),
    }
  }
}

export const toRefusal = ({ name, refusal }: SoughtWorkspace, caller: Caller): HttpError =>
  refusal === 'withheld' ? withheldFrom(caller) : needsEditor('workspaceReadOnly', 'workspace', name)

export function unknownWorkspace(name: string): HttpError {
  return new HttpError('workspaceUnknown', `There is no workspace "${name.slice(0, 200)}" that this key may use.`)
}

function wrongEvents({ errors, rejected, raw }: Batch): HttpError {
  const shown = errors.slice(0, errorsInMessageMax).map((it) => `[${it.index}] ${describeItemError(it)}`)
  const more = errors.length > shown.length ? `; and ${errors.length - shown.length} more, see data` : ''
  return new HttpError(
    'eventsWrong',
    `${rejected.size} of ${raw.length} items are wrong, so nothing of this request was kept: ${shown.join('; ')}${more}`,
    { data: errors.slice(0, errorsShownMax) },
  )
}

/** Groups items by model. Items of one model mostly stand together. */
function toGroups({ items, indexes }: Batch): Group[] {
  const groups = new Map<string, Group>()
  let last: Group | undefined
  for (let at = 0; at < items.length; at++) {
    const item = items[at] as Item
    const { workspaceName, modelName } = item
    if (last?.modelName !== modelName || last.workspaceName !== workspaceName) {
      const id = JSON.stringify([workspaceName, modelName])
      last = groups.get(id) ?? { workspaceName, modelName, items: [], indexes: [] }
      groups.set(id, last)
    }
    last.items.push(item)
    last.indexes.push(indexes[at] as number)
  }
  return [...groups.values()]
}

/** Replaces what Postgres cannot store as text: rejected items may hold anything. */
const toStorable = (text: string) => text.toWellFormed().replaceAll('\0', '\ufffd')
