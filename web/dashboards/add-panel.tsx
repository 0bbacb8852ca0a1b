import type { ReactNode } from 'react'
import { Button } from '../kit/button.tsx'
import {
  BellIcon,
  BoxIcon,
  ColumnsIcon,
  EyeIcon,
  FileIcon,
  GridIcon,
  HistogramIcon,
  LineIcon,
  NotesIcon,
  PinIcon,
  PlusIcon,
  PulseIcon,
  TagIcon,
} from '../kit/icons.tsx'
import { Menu, MenuItem, MenuLabel, MenuLine } from '../kit/menu.tsx'
import { type Kind, kindGroups, kinds } from './panel-kinds.ts'

const icons: Record<Kind, ReactNode> = {
  chart: <LineIcon />,
  value: <PinIcon />,
  runs: <ColumnsIcon />,
  media: <EyeIcon />,
  file: <FileIcon />,
  model: <PulseIcon />,
  drift: <GridIcon />,
  feature: <HistogramIcon />,
  labels: <TagIcon />,
  firings: <BellIcon />,
  artifact: <BoxIcon />,
  versions: <TagIcon />,
  text: <NotesIcon />,
}

/** A menu of the kinds of panels. */
export function AddPanel({ onAdd }: { onAdd(kind: Kind): void }) {
  return (
    <Menu
      align="end"
      trigger={
        <Button>
          <PlusIcon size={14} /> Add a panel
        </Button>
      }
    >
      {kindGroups.map((group) => [
        group.label ? <MenuLabel key={group.label}>{group.label}</MenuLabel> : <MenuLine key="line" />,
        ...group.kinds.map((kind) => (
          <MenuItem key={kind} icon={icons[kind]} hint={kinds[kind].about} onSelect={() => onAdd(kind)}>
            {kinds[kind].label}
          </MenuItem>
        )),
      ])}
    </Menu>
  )
}
