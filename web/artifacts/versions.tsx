import { Link } from '@tanstack/react-router'
import type { ArtifactVersion } from '../api/artifacts/artifacts.ts'
import { toAgo, toBytes, toTime } from '../kit/text.ts'
import styles from './artifacts.module.css'
import { Labels, RunName } from './parts.tsx'

type Props = { versions: ArtifactVersion[]; workspace: string; name: string }

/** Versions of an artifact in a table. */
export function Versions({ versions, workspace, name }: Props) {
  return (
    <div className={styles.frame}>
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">Version</th>
            <th scope="col">State</th>
            <th scope="col">Aliases</th>
            <th scope="col" className={styles.number}>
              Size
            </th>
            <th scope="col">Run</th>
            <th scope="col">Made</th>
          </tr>
        </thead>
        <tbody>
          {versions.map((it) => (
            <tr key={it.artifactVersionId}>
              <td className={styles.name}>
                {it.state === 'CLOSED' ? (
                  <Link
                    to="/$workspace/-/artifacts/$artifact/$version"
                    params={{ workspace, artifact: name, version: it.artifactVersion }}
                  >
                    {it.artifactVersion}
                  </Link>
                ) : (
                  it.artifactVersion
                )}
              </td>
              <td>
                <span className={styles.state} data-state={it.state}>
                  {it.state.toLowerCase()}
                </span>
              </td>
              <td>
                <Labels aliases={it.alias} tags={it.tags} />
              </td>
              <td className={styles.number}>{toBytes(it.sizeInBytes)}</td>
              <td>
                <RunName experimentKey={it.experimentKey} />
              </td>
              <td className={styles.soft} title={toTime(it.added)}>
                {`${toAgo(it.added)} by ${it.owner}`}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
