import { Link } from '@tanstack/react-router'
import type { Version } from '../api/registry.ts'
import { toAgo, toTime } from '../kit/text.ts'
import styles from './registry.module.css'
import { Stages } from './stages.tsx'

type Props = { versions: Version[]; workspaceName: string; modelName: string; isWritable: boolean }

/** Versions of a registered model in a table. */
export function Versions({ versions, workspaceName, modelName, isWritable }: Props) {
  return (
    <div className={styles.frame}>
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">Version</th>
            <th scope="col">Stages</th>
            <th scope="col">Status</th>
            <th scope="col">Registered</th>
            <th scope="col">By</th>
          </tr>
        </thead>
        <tbody>
          {versions.map((it) => (
            <tr key={it.registryModelItemId}>
              <td>
                <div className={styles.name}>
                  <Link
                    to="/$workspace/-/models/$model/$version"
                    params={{ workspace: workspaceName, model: modelName, version: it.version }}
                  >
                    {it.version}
                  </Link>
                </div>
                {it.comment && (
                  <p className={styles.second} title={it.comment}>
                    {it.comment}
                  </p>
                )}
              </td>
              <td>
                <Stages workspaceName={workspaceName} modelName={modelName} version={it} isWritable={isWritable} />
              </td>
              <td className={styles.soft}>{it.status}</td>
              <td className={styles.soft} title={toTime(it.createdAt)}>
                {toAgo(it.createdAt)}
              </td>
              <td className={styles.soft}>{it.userName}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
