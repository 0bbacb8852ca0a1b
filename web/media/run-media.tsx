import { useQuery } from '@tanstack/react-query'
import { htmlPageUrl, runHtml } from '../api/artifacts/media.ts'
import styles from './media.module.css'
import { parseMediaState } from './media-search.ts'
import { type MediaProps, MediaView } from './media-view.tsx'

type Props = Omit<MediaProps, 'state' | 'onState' | 'children' | 'runs'> & {
  experimentKey: string
  name: string
  state: Record<string, unknown>
  onState(change: Record<string, unknown>): void
}

/** The media of one run, and the HTML that it has logged by itself, in a frame that has no origin. */
export function RunMedia({ experimentKey, name, state, onState, ...rest }: Props) {
  const html = useQuery(runHtml(experimentKey)).data
  return (
    <MediaView runs={[{ experimentKey, name }]} state={parseMediaState(state)} onState={onState} {...rest}>
      {html ? (
        <section className={styles.group} aria-label="HTML of the run">
          <header className={styles.groupHeader}>
            <h2>HTML of the run</h2>
          </header>
          <iframe
            sandbox="allow-scripts"
            src={htmlPageUrl(experimentKey)}
            title="HTML of the run"
            loading="lazy"
            className={styles.html}
          />
        </section>
      ) : undefined}
    </MediaView>
  )
}
