import type { ReactNode } from 'react'
import { Button, IconButton, join } from '../kit/button.tsx'
import { CheckIcon, CloseIcon, ColumnsIcon, FilterIcon, GroupIcon } from '../kit/icons.tsx'
import { Popover } from '../kit/popover.tsx'
import { type Choice, ColumnPicker } from './column-picker.tsx'
import { type ColumnId, parseColumnId, toColumnId, toLabel } from './columns.ts'
import { FilterEditor, toRuleText } from './filter-editor.tsx'
import type { RunsSearch } from './runs-search.ts'
import { QueryBox } from './search/query-box.tsx'
import styles from './toolbar.module.css'

type Props = {
  project: { workspaceName: string; projectName: string }
  search: RunsSearch
  /** Changes the state of the page; undefined takes a field back to its default. */
  onChange(change: Partial<RunsSearch>): void
  known: Choice[]
  columns: ColumnId[]
  count: string
  children?: ReactNode
}

/** What the table shows: search, filter, groups and columns. */
export function Toolbar({ project, search, onChange, known, columns, count, children }: Props) {
  const { filter = [], group = [] } = search
  const toggleColumn = (id: ColumnId) =>
    onChange({ columns: columns.includes(id) ? columns.filter((it) => it !== id) : [...columns, id] })
  return (
    <div className={styles.toolbar}>
      <div className={styles.line}>
        <QueryBox
          project={project}
          archived={search.archived === true}
          query={search.search ?? ''}
          onChange={(text) => onChange({ search: text || undefined })}
        />
        <Popover
          label="Add a filter"
          trigger={(toggle, isOpen) => (
            <Button look="quiet" aria-expanded={isOpen} onClick={toggle}>
              <FilterIcon /> Filter
            </Button>
          )}
        >
          {(close) => (
            <FilterEditor
              known={known}
              onDone={(rule) => {
                onChange({ filter: [...filter, rule] })
                close()
              }}
            />
          )}
        </Popover>
        <Popover
          label="Group runs"
          trigger={(toggle, isOpen) => (
            <Button look="quiet" aria-expanded={isOpen} onClick={toggle}>
              <GroupIcon /> Group
            </Button>
          )}
        >
          {() => (
            <ColumnPicker
              known={known}
              isChosen={(it) => group.includes(it.id)}
              mark={(it) => group.includes(it.id) && <CheckIcon />}
              onChoose={({ id }) => {
                const next = group.includes(id) ? group.filter((it) => it !== id) : [...group, id]
                onChange({ group: next.length > 0 ? next : undefined, open: undefined })
              }}
            />
          )}
        </Popover>
        <Popover
          label="Choose columns"
          trigger={(toggle, isOpen) => (
            <Button look="quiet" aria-expanded={isOpen} onClick={toggle}>
              <ColumnsIcon /> Columns
            </Button>
          )}
        >
          {() => (
            <ColumnPicker
              known={known}
              isChosen={(it) => columns.includes(it.id)}
              onChoose={(it) => toggleColumn(it.id)}
              mark={(it) =>
                it.source === 'metric' ? (
                  <MetricMarks choice={it} columns={columns} onToggle={toggleColumn} />
                ) : (
                  columns.includes(it.id) && <CheckIcon />
                )
              }
            />
          )}
        </Popover>
        <span className={styles.count} role="status">
          {count}
        </span>
        <span className={styles.right}>{children}</span>
      </div>
      {(filter.length > 0 || group.length > 0 || search.archived) && (
        <ul className={styles.chips} aria-label="Filters and groups">
          {group.map((id) => (
            <Chip
              key={`g${id}`}
              text={`Grouped by ${toLabel(parseColumnId(id))}`}
              onRemove={() => {
                const next = group.filter((it) => it !== id)
                onChange({ group: next.length > 0 ? next : undefined, open: undefined })
              }}
            />
          ))}
          {filter.map((rule) => (
            <Chip
              key={JSON.stringify(rule)}
              text={toRuleText(rule)}
              onRemove={() => {
                const next = filter.filter((it) => it !== rule)
                onChange({ filter: next.length > 0 ? next : undefined })
              }}
            />
          ))}
          {search.archived && <Chip text="Archived runs" onRemove={() => onChange({ archived: undefined })} />}
        </ul>
      )}
    </div>
  )
}

const kinds = [
  ['last', 'last'],
  ['min', 'min'],
  ['max', 'max'],
] as const

type MarksProps = { choice: Choice; columns: ColumnId[]; onToggle(id: ColumnId): void }

function MetricMarks({ choice, columns, onToggle }: MarksProps) {
  return kinds.map(([of, text]) => {
    const id = toColumnId({ ...choice, source: 'metric', of })
    const isChosen = columns.includes(id)
    return (
      <button
        key={of}
        type="button"
        aria-pressed={isChosen}
        aria-label={`${text} of ${toLabel(choice)}`}
        className={join(styles.mark, isChosen && styles.markChosen)}
        onClick={() => onToggle(id)}
      >
        {text}
      </button>
    )
  })
}

function Chip({ text, onRemove }: { text: string; onRemove(): void }) {
  return (
    <li className={styles.chip}>
      <span title={text}>{text}</span>
      <IconButton label={`Remove: ${text}`} size="small" className={styles.remove} onClick={onRemove}>
        <CloseIcon size={12} />
      </IconButton>
    </li>
  )
}
