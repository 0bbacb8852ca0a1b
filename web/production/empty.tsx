import { baseUrl } from '../api/http.ts'
import { EmptyPlace } from '../kit/places.tsx'
import { Snippet } from '../kit/snippet.tsx'
import styles from './production.module.css'

type Item = { workspaceName: string; modelName: string } & Record<string, unknown>

/** A line for a shell that sends one event, or the labels of one. */
export function toCurl(what: 'events' | 'labels', { workspaceName, modelName, ...rest }: Item): string {
  const { modelVersion: _, segment: __, ...item } = rest
  const quoted = (it: unknown) => JSON.stringify(it).replaceAll("'", "'\\''")
  const fields = Object.entries(item).map(([name, value]) => `${quoted(name)}: ${quoted(value)}`)
  const data = `{"data": [{"workspaceName": ${quoted(workspaceName)}, "modelName": ${quoted(modelName)},
    ${fields.join(',\n    ')}}]}`
  return `curl ${new URL(`mpm/v2/${what}/batch`, baseUrl).href} \\
  -H "Authorization: $SVC_API_KEY" -H 'content-type: application/json' -d '
  ${data}'`
}

type Props = { workspaceName: string; modelName: string; title: string }

/** Says how to send the first event. */
export function EmptyProduction({ workspaceName, modelName, title }: Props) {
  const event = {
    predictionId: 'order-17',
    features: { amount: 12.5, country: 'NL' },
    prediction: { value: 'ok', probability: 0.93 },
  }
  return (
    <EmptyPlace title={title}>
      <p>
        A deployed model sends its features and predictions as events, and labels when the truth is known. Here you see
        how many come, how far they are from what the model was trained on, and how often it is right.
      </p>
      <p>Send one, with your API key in SVC_API_KEY:</p>
      <div className={styles.snippet}>
        <Snippet code={toCurl('events', { workspaceName, modelName, ...event })} />
      </div>
      <p>
        Or watch a model that drifts: <code>npm run demo -- production</code>
      </p>
    </EmptyPlace>
  )
}
