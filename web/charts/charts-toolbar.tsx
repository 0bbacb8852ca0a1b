import { IconButton } from '../kit/button.tsx'
import { Input, Select } from '../kit/field.tsx'
import { DotsIcon } from '../kit/icons.tsx'
import { Menu, MenuCheck, MenuChoice, MenuLabel, MenuLine } from '../kit/menu.tsx'
import { type ChartState, type Size, toMetricAxis } from './chart-state.ts'
import styles from './charts-toolbar.module.css'
import type { Metric } from './use-lines.ts'

type Props = {
  state: ChartState
  onState(change: Partial<ChartState>): void
  metrics: Metric[]
  hasGroups: boolean
  /** Some metrics have an x axis of their own. */
  hasOwnAxes: boolean
}

const axes = { step: 'Step', time: 'Time', relative: 'Time since start', epoch: 'Epoch' }
const metricsMax = 200

const toGroups = (value: string) => (value === 'extremes' || value === 'runs' ? value : undefined)

/** How all charts look: search, the x axis, smoothing, scales, size. */
export function ChartsToolbar({ state, onState, metrics, hasGroups, hasOwnAxes }: Props) {
  const usual = hasOwnAxes ? '' : 'step'
  const names = [...new Set(metrics.map((it) => it.name))].sort().slice(0, metricsMax)
  return (
    <div className={styles.toolbar} role="toolbar" aria-label="How charts look">
      <Input
        type="search"
        className={styles.search}
        aria-label="Find charts by name"
        placeholder="Find charts"
        title="Text, or a regular expression"
        value={state.search ?? ''}
        onChange={(event) => onState({ search: event.target.value || undefined })}
      />
      <Select
        aria-label="X axis"
        value={state.x ?? usual}
        onChange={({ target: { value } }) => onState({ x: value === usual ? undefined : value, zoom: undefined })}
      >
        {hasOwnAxes && <option value="">As the run defines</option>}
        {Object.entries(axes).map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
        <optgroup label="Another metric">
          {names.map((it) => (
            <option key={it} value={toMetricAxis(it)}>
              {it}
            </option>
          ))}
        </optgroup>
      </Select>
      {hasGroups && (
        <Select
          aria-label="Lines of groups"
          title="What the charts draw of each group of runs"
          value={state.groups ?? 'deviation'}
          onChange={({ target: { value } }) => onState({ groups: toGroups(value) })}
        >
          <option value="deviation">Mean ± deviation</option>
          <option value="extremes">Mean, min to max</option>
          <option value="runs">Every run</option>
        </Select>
      )}
      <label className={styles.smooth}>
        Smooth
        <input
          type="range"
          min={0}
          max={0.99}
          step={0.01}
          value={state.smooth ?? 0}
          onChange={({ target: { valueAsNumber } }) => onState({ smooth: valueAsNumber || undefined })}
        />
        <output>{(state.smooth ?? 0).toFixed(2)}</output>
      </label>
      {state.zoom && (
        <button type="button" className={styles.zoom} onClick={() => onState({ zoom: undefined })}>
          Zoomed: show all
        </button>
      )}
      <span className={styles.space} />
      <Menu
        align="end"
        trigger={
          <IconButton label="Scales and size of charts">
            <DotsIcon />
          </IconButton>
        }
      >
        <MenuCheck checked={state.logY === true} onChange={(it) => onState({ logY: it || undefined })}>
          Logarithmic y
        </MenuCheck>
        <MenuCheck checked={state.logX === true} onChange={(it) => onState({ logX: it || undefined })}>
          Logarithmic x
        </MenuCheck>
        <MenuCheck checked={state.cut === true} onChange={(it) => onState({ cut: it || undefined })}>
          Leave outliers out of y
        </MenuCheck>
        <MenuLine />
        <MenuLabel>Size</MenuLabel>
        <MenuChoice<Size>
          value={state.size ?? 'medium'}
          onChange={(size) => onState({ size: size === 'medium' ? undefined : size })}
          choices={[
            { value: 'small', label: 'Small' },
            { value: 'medium', label: 'Medium' },
            { value: 'large', label: 'Large' },
          ]}
        />
      </Menu>
    </div>
  )
}
