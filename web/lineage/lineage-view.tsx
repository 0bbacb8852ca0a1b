import { useQuery } from '@tanstack/react-query'
import { useMemo, useState } from 'react'
import { type LineageNode, type LineageOf, lineage, nodesUsual } from '../api/artifacts/lineage.ts'
import { Button } from '../kit/button.tsx'
import { PageLink } from '../kit/page-link.tsx'
import { EmptyPlace, ErrorPlace, LoadingPlace } from '../kit/places.tsx'
import { SearchField } from '../kit/search-field.tsx'
import { toCount, toCountOf } from '../kit/text.ts'
import { Graph } from './graph.tsx'
import styles from './lineage.module.css'
import { toNodePath } from './paths.ts'

const nodesMost = 2_000

export type LineageProps = { of: LineageOf; asList: boolean; onList(asList: boolean): void }

/** What something came from and what came of it, as a graph or as a list. */
export function LineageView({ of, asList, onList }: LineageProps) {
  const [nodesMax, setNodesMax] = useState(nodesUsual)
  const { data, error, refetch } = useQuery(lineage(of, nodesMax))
  if (error) return <ErrorPlace error={error} onRetry={refetch} />
  if (!data) return <LoadingPlace />
  if (data.edges.length === 0) {
    return (
      <EmptyPlace title="No lineage">
        <p>
          Runs that log versions of artifacts or use them, and registered models that are made from runs, stand here
          with all that came before and after.
        </p>
        <p>
          <code>experiment.log_artifact("dataset", "data/")</code>
        </p>
      </EmptyPlace>
    )
  }
  const count = (kind: LineageNode['kind']) => data.nodes.filter((it) => it.kind === kind).length
  const facts = [
    toCountOf(count('run'), 'run'),
    toCountOf(count('artifact'), 'artifact version'),
    toCountOf(count('model'), 'model version'),
  ]
  return (
    <div className={styles.view}>
      <div className={styles.bar}>
        <span className={styles.switch} role="group" aria-label="Shown as">
          <Button size="small" aria-pressed={!asList} onClick={() => onList(false)}>
            Graph
          </Button>
          <Button size="small" aria-pressed={asList} onClick={() => onList(true)}>
            List
          </Button>
        </span>
        <span className={styles.faint} role="status">
          {facts.join(', ')}
        </span>
        {data.truncated && (
          <span className={styles.warn}>
            {`There are more: the ${toCount(data.nodes.length)} nearest are shown.`}
            {nodesMax < nodesMost && (
              <Button size="small" onClick={() => setNodesMax(nodesMost)}>{`Show up to ${toCount(nodesMost)}`}</Button>
            )}
          </span>
        )}
      </div>
      {asList ? <NodeList {...data} /> : <Graph {...data} />}
    </div>
  )
}

type ListProps = { nodes: LineageNode[]; edges: { from: string; to: string }[]; start: string }

function NodeList({ nodes, edges, start }: ListProps) {
  const [search, setSearch] = useState('')
  const byId = useMemo(() => new Map(nodes.map((it) => [it.node, it])), [nodes])
  const before = useMemo(() => Map.groupBy(edges, (it) => it.to), [edges])
  const after = useMemo(() => Map.groupBy(edges, (it) => it.from), [edges])
  const words = search.toLowerCase()
  const shown = nodes.filter((it) => `${it.name} ${it.version ?? ''} ${it.kind}`.toLowerCase().includes(words))
  return (
    <div className={styles.list}>
      <SearchField label="Search the lineage" placeholder="Name or version" text={search} onChange={setSearch} />
      <table className={styles.table}>
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Kind</th>
            <th scope="col">Came from</th>
            <th scope="col">Led to</th>
          </tr>
        </thead>
        <tbody>
          {shown.map((it) => (
            <tr key={it.node} aria-current={it.node === start ? 'true' : undefined}>
              <td>
                <NodeLink node={it} />
              </td>
              <td className={styles.soft}>{it.kind === 'artifact' ? (it.artifactType ?? 'artifact') : it.kind}</td>
              <td>
                <Others nodes={(before.get(it.node) ?? []).map((edge) => byId.get(edge.from))} />
              </td>
              <td>
                <Others nodes={(after.get(it.node) ?? []).map((edge) => byId.get(edge.to))} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length === 0 && <p className={styles.faint}>Nothing has this in its name.</p>}
    </div>
  )
}

const othersShown = 3

function Others({ nodes }: { nodes: (LineageNode | undefined)[] }) {
  const [isWhole, setWhole] = useState(false)
  const known = nodes.filter((it) => it !== undefined)
  const shown = isWhole ? known : known.slice(0, othersShown)
  return (
    <span className={styles.others}>
      {shown.map((it) => (
        <NodeLink key={it.node} node={it} />
      ))}
      {known.length > shown.length && (
        <Button
          size="small"
          look="quiet"
          onClick={() => setWhole(true)}
        >{`and ${known.length - shown.length} more`}</Button>
      )}
    </span>
  )
}

function NodeLink({ node }: { node: LineageNode }) {
  return (
    <PageLink path={toNodePath(node)}>
      {node.name}
      {node.version !== null && ` ${node.version}`}
    </PageLink>
  )
}
