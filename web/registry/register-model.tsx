import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useRouter } from '@tanstack/react-router'
import { useId, useState } from 'react'
import {
  type LoggedModel,
  loggedModels,
  readModels,
  refreshModel,
  registerModel,
  registerVersion,
  versions,
} from '../api/registry.ts'
import { Dialog, FormDialog } from '../kit/dialog.tsx'
import { Checkbox, Select, TextArea, TextField } from '../kit/field.tsx'
import { PageLink, toPagePath } from '../kit/page-link.tsx'
import { ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { Snippet } from '../kit/snippet.tsx'
import { toast } from '../kit/toast.tsx'
import styles from './registry.module.css'

type Run = { experimentKey: string; experimentName: string; workspaceName: string }

const title = 'Register a model'

/** Registers a model that a run has logged: as a new registered model, or as the next version of one. */
export function RegisterModel({ run, onClose }: { run: Run; onClose(): void }) {
  const { data, error, refetch } = useQuery(loggedModels(run.experimentKey))
  if (data && data.length > 0) return <Form run={run} logged={data} onClose={onClose} />
  return (
    <Dialog title={title} onClose={onClose} width={520}>
      {error ? (
        <ErrorPlace error={error} onRetry={refetch} />
      ) : data === undefined ? (
        <LoadingPlace rows={3} />
      ) : (
        <div className={styles.section}>
          <p>
            {run.experimentName} has logged no model. A model is one or more files under a name; they are copied into
            the registry when it is registered.
          </p>
          <Snippet code={'experiment.log_model("digits", "model.bin")'} />
        </div>
      )}
    </Dialog>
  )
}

/** What the service takes when no version is given. */
function toNext(highest: string | undefined): string {
  if (highest === undefined) return '1.0.0'
  const [, rest, patch, before] = /^(\d+\.\d+\.)(\d+)(-)?/.exec(highest) ?? []
  if (rest === undefined || patch === undefined) return ''
  return before ? `${rest}${patch}` : `${rest}${BigInt(patch) + 1n}`
}

function Form({ run, logged, onClose }: { run: Run; logged: LoggedModel[]; onClose(): void }) {
  const { workspaceName } = run
  const [sourceId, setSourceId] = useState(logged[0]?.experimentModelId ?? '')
  const source = logged.find((it) => it.experimentModelId === sourceId)
  const [typedName, setName] = useState<string>()
  const name = (typedName ?? source?.modelName ?? '').trim()
  const [version, setVersion] = useState('')
  const [stages, setStages] = useState('')
  const [comment, setComment] = useState('')
  const [description, setDescription] = useState('')
  const [isPublic, setPublic] = useState(false)
  const client = useQueryClient()
  const router = useRouter()
  const [sourceSelect, namesId] = [useId(), useId()]
  const known = useQuery({
    queryKey: ['registry-models', workspaceName, 'names'],
    queryFn: ({ signal }) => readModels({ workspaceName, order: 'name', pageSize: 1_000 }, signal),
  }).data
  const isKnown = known?.models.some((it) => it.modelName === name) ?? false
  const others = useQuery({ ...versions({ workspaceName, modelName: name }), enabled: isKnown }).data
  const next = isKnown ? toNext(others?.[0]?.version) : '1.0.0'
  const number = version.trim() || next
  async function register() {
    const list = stages.split(',').flatMap((it) => it.trim() || [])
    const it = {
      experimentModelId: sourceId,
      registryModelName: name,
      version: number,
      comment: comment.trim(),
      stages: list,
    }
    if (isKnown) await registerVersion(it)
    else await registerModel({ ...it, description: description.trim(), isPublic })
    await refreshModel(client, { workspaceName, modelName: name })
    await client.invalidateQueries(loggedModels(run.experimentKey))
    const path = `${toPagePath(workspaceName)}/-/models/${toPagePath(name, number)}`
    toast(`Registered ${name} ${number}`, {
      action: {
        label: 'Show',
        run: () => router.history.push(`${router.basepath.replace(/\/$/, '')}/${path}`),
      },
    })
  }
  return (
    <FormDialog
      title={title}
      action={isKnown ? `Add version ${number}` : 'Register model'}
      canSubmit={name !== '' && known !== undefined}
      width={520}
      onClose={onClose}
      onSubmit={register}
    >
      <div className={styles.group}>
        <label htmlFor={sourceSelect}>Model of {run.experimentName}</label>
        <Select id={sourceSelect} value={sourceId} onChange={(event) => setSourceId(event.target.value)}>
          {logged.map((it) => (
            <option key={it.experimentModelId} value={it.experimentModelId}>
              {it.modelName}
            </option>
          ))}
        </Select>
      </div>
      {source && source.registryRecords.length > 0 && (
        <p className={styles.soft}>
          It is registered as{' '}
          {source.registryRecords.map(({ registryModelItemId: id, registryModelName: model, version }, at) => (
            <span key={id}>
              {at > 0 && ', '}
              <PageLink path={`${toPagePath(workspaceName)}/-/models/${toPagePath(model, version)}`}>
                {model} {version}
              </PageLink>
            </span>
          ))}
          .
        </p>
      )}
      <TextField
        label="Registered model"
        list={namesId}
        maxLength={200}
        hint={
          isKnown
            ? 'It is registered: this becomes its next version.'
            : 'A new one; choose a known one to add a version.'
        }
        value={typedName ?? source?.modelName ?? ''}
        onChange={(event) => setName(event.target.value)}
      />
      <datalist id={namesId}>
        {known?.models.map((it) => (
          <option key={it.registryModelId} value={it.modelName} />
        ))}
      </datalist>
      <TextField
        label="Version"
        placeholder={next}
        hint={`Three numbers, such as 1.0.0. Empty: ${next || 'the next one'}.`}
        value={version}
        onChange={(event) => setVersion(event.target.value)}
      />
      <TextField
        label="Stages"
        placeholder="staging"
        hint="Separated by commas."
        value={stages}
        onChange={(event) => setStages(event.target.value)}
      />
      <TextArea label="Comment" value={comment} onChange={(event) => setComment(event.target.value)} />
      {!isKnown && (
        <>
          <TextArea
            label="Description of the model"
            value={description}
            onChange={(event) => setDescription(event.target.value)}
          />
          <Checkbox checked={isPublic} onChange={(event) => setPublic(event.target.checked)}>
            Everybody in the organization may read it
          </Checkbox>
        </>
      )}
    </FormDialog>
  )
}
