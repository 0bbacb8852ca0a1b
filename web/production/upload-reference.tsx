import { useQueryClient } from '@tanstack/react-query'
import { type ChangeEvent, useRef, useState } from 'react'
import { type Name, refreshMonitored, type Uploaded, uploadReference } from '../api/monitoring.ts'
import { Button, join } from '../kit/button.tsx'
import { TextField } from '../kit/field.tsx'
import { toBytes, toCount } from '../kit/text.ts'
import { useMayWrite } from '../kit/use-may-write.ts'
import styles from './production.module.css'

const stillReadMs = 1_500

/** Uploads a file as the reference of a model, and says how far it is. */
export function UploadReference({ name: { workspaceName, modelName } }: { name: Name }) {
  const name = { workspaceName, modelName }
  const [datasetName, setDatasetName] = useState(`${modelName}-reference`)
  const [file, setFile] = useState<File>()
  const [share, setShare] = useState<number>()
  const [done, setDone] = useState<Uploaded>()
  const [error, setError] = useState<string>()
  const picker = useRef<HTMLInputElement>(null)
  const client = useQueryClient()
  const mayWrite = useMayWrite(workspaceName)
  async function upload() {
    if (!file) return
    setShare(0)
    setError(undefined)
    setDone(undefined)
    try {
      setDone(await uploadReference({ ...name, datasetName: datasetName.trim() }, file, setShare))
      await refreshMonitored(client, name)
      // Its rows are readable a moment later.
      setTimeout(() => void refreshMonitored(client, name), stillReadMs)
    } catch (reason) {
      setError((reason as Error).message)
    } finally {
      setShare(undefined)
    }
  }
  if (!mayWrite) return <p className={styles.soft}>Editors of the workspace can upload one.</p>
  return (
    <div className={join(styles.column, styles.narrow)}>
      <TextField
        label="Name of the reference"
        value={datasetName}
        onChange={(event) => setDatasetName(event.target.value)}
      />
      <div className={styles.find}>
        <input
          ref={picker}
          type="file"
          hidden
          accept=".csv,text/csv"
          aria-label="File of the reference"
          onChange={(event: ChangeEvent<HTMLInputElement>) => setFile(event.target.files?.[0])}
        />
        <Button onClick={() => picker.current?.click()}>Choose a file</Button>
        <Button
          look="primary"
          disabled={!file || share !== undefined || datasetName.trim() === ''}
          onClick={() => void upload()}
        >
          Upload
        </Button>
        {file && <span className={styles.soft}>{`${file.name}, ${toBytes(file.size)}`}</span>}
      </div>
      {share !== undefined && (
        <progress className={styles.progress} aria-label="Upload" max={1} value={share}>
          {`${Math.round(share * 100)} %`}
        </progress>
      )}
      {done && (
        <p role="status">
          {`${toCount(done.accepted)} events were stored`}
          {done.duplicates > 0 && `, ${toCount(done.duplicates)} were there already`}
          {done.rejected > 0 && `, ${toCount(done.rejected)} lines are wrong: see the errors of the model`}.
        </p>
      )}
      {error && (
        <p role="alert" className={styles.warning}>
          {error}
        </p>
      )}
    </div>
  )
}
