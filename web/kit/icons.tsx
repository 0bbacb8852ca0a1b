import type { ReactNode } from 'react'

/** Line icons on a grid of 16; their colour is that of the text. They are decoration: the button around them has a name. */
function toIcon(shape: ReactNode) {
  // biome-ignore lint/correctness/noComponentHookFactories: each is made once, at module level
  return function Icon({ size = 16 }: { size?: number }) {
    return (
      <svg
        aria-hidden="true"
        width={size}
        height={size}
        viewBox="0 0 16 16"
        fill="none"
        stroke="currentColor"
        strokeWidth="1.5"
        strokeLinecap="round"
        strokeLinejoin="round"
      >
        {shape}
      </svg>
    )
  }
}

export const SearchIcon = toIcon(<path d="M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10ZM10.8 10.8 14 14" />)
export const SunIcon = toIcon(
  <path d="M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M3.4 12.6l.7-.7M11.9 4.1l.7-.7" />,
)
export const MoonIcon = toIcon(<path d="M13.5 9.5A6 6 0 0 1 6.5 2.5a6 6 0 1 0 7 7Z" />)
export const SystemIcon = toIcon(<path d="M2 3h12v8H2zM6 14h4M8 11v3" />)
export const PlusIcon = toIcon(<path d="M8 3v10M3 8h10" />)
export const DotsIcon = toIcon(
  <g fill="currentColor" stroke="none">
    <circle cx="3" cy="8" r="1.4" />
    <circle cx="8" cy="8" r="1.4" />
    <circle cx="13" cy="8" r="1.4" />
  </g>,
)
export const CloseIcon = toIcon(<path d="m4 4 8 8M12 4l-8 8" />)
export const CheckIcon = toIcon(<path d="m3 8.5 3.2 3L13 4.5" />)
export const CopyIcon = toIcon(<path d="M5.5 5.5v-3h8v8h-3M2.5 5.5h8v8h-8z" />)
export const DownIcon = toIcon(<path d="m4 6 4 4 4-4" />)
export const RightIcon = toIcon(<path d="m6 4 4 4-4 4" />)
export const UpArrowIcon = toIcon(<path d="M8 13V3M4 7l4-4 4 4" />)
export const DownArrowIcon = toIcon(<path d="M8 3v10M4 9l4 4 4-4" />)
export const EyeIcon = toIcon(
  <path d="M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8ZM8 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4Z" />,
)
export const EyeOffIcon = toIcon(
  <path d="m2 2 12 12M6.5 3.7C7 3.6 7.5 3.5 8 3.5c4 0 6.5 4.5 6.5 4.5s-.7 1.3-2 2.5M4 4.9C2.4 6.2 1.5 8 1.5 8S4 12.5 8 12.5c1 0 1.9-.3 2.7-.7" />,
)
export const ColumnsIcon = toIcon(<path d="M2 3h12v10H2zM6 3v10M10 3v10" />)
export const FilterIcon = toIcon(<path d="M2 4h12M4.5 8h7M7 12h2" />)
export const GroupIcon = toIcon(<path d="M2 3h5v4H2zM9 3h5v4H9zM2 9h5v4H2zM9 9h5v4H9z" />)
export const SortIcon = toIcon(<path d="M5 3v10M2.5 10.5 5 13l2.5-2.5M11 13V3M8.5 5.5 11 3l2.5 2.5" />)
export const PinIcon = toIcon(<path d="M6 2h4l-.5 5L12 9.5H4L6.5 7 6 2ZM8 9.5V14" />)
export const TagIcon = toIcon(<path d="M2 2.5h5.5L14 9l-5 5-6.5-6.5zM5 5.5h.01" />)
export const ArchiveIcon = toIcon(<path d="M2 3h12v3H2zM3 6v7h10V6M6.5 9h3" />)
export const NotesIcon = toIcon(<path d="M3 2h10v12H3zM5.5 5.5h5M5.5 8h5M5.5 10.5h3" />)
export const TrashIcon = toIcon(<path d="M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.7 9h6.6l.7-9" />)
export const MoveIcon = toIcon(<path d="M2 4h4l1.5 2H14v7H2zM6 9.5h4M8.5 8 10 9.5 8.5 11" />)
export const RestoreIcon = toIcon(<path d="M2.5 8a5.5 5.5 0 1 0 1.7-4L2.5 5.5M2.5 2v3.5H6" />)
export const DownloadIcon = toIcon(<path d="M8 2v8.5M4.5 7.5 8 11l3.5-3.5M2.5 13.5h11" />)
export const LinkIcon = toIcon(
  <path d="M6.5 9.5a3 3 0 0 0 4.2 0l2.2-2.2a3 3 0 0 0-4.2-4.2l-1 1M9.5 6.5a3 3 0 0 0-4.2 0L3.1 8.7a3 3 0 0 0 4.2 4.2l1-1" />,
)
export const UserIcon = toIcon(<path d="M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM2.5 14a5.5 5.5 0 0 1 11 0" />)
export const BellIcon = toIcon(<path d="M4 11.5V7a4 4 0 0 1 8 0v4.5M2.5 11.5h11M6.5 13.5a1.5 1.5 0 0 0 3 0" />)
export const BookIcon = toIcon(
  <path d="M8 4C6.5 2.8 4.5 2.5 2 2.5v10c2.5 0 4.5.3 6 1.5 1.5-1.2 3.5-1.5 6-1.5v-10c-2.5 0-4.5.3-6 1.5ZM8 4v10" />,
)
export const PencilIcon = toIcon(<path d="m2.5 13.5.7-3L10.5 3.2a1.5 1.5 0 0 1 2.3 2.3L5.5 12.8l-3 .7Z" />)
export const PanelIcon = toIcon(<path d="M2 3h12v10H2zM7 3v10" />)
export const CrossIcon = toIcon(<path d="M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM6 6l4 4M10 6l-4 4" />)
export const ShieldIcon = toIcon(
  <path d="M8 1.8 13 3.6v4c0 3.2-2 5.4-5 6.6-3-1.2-5-3.4-5-6.6v-4zM5.8 8l1.6 1.6 3-3.2" />,
)
export const BoxIcon = toIcon(<path d="M8 1.8 13.5 5v6L8 14.2 2.5 11V5zM2.5 5 8 8.2 13.5 5M8 8.2v6" />)
export const LineIcon = toIcon(<path d="M2 2v12h12M4.5 10.5l3-4 2.5 2L14 4" />)
export const HistogramIcon = toIcon(<path d="M2 14h12M3.5 14V9.5M6.5 14V4M9.5 14V6.5M12.5 14v-3" />)
export const GridIcon = toIcon(<path d="M2 2h12v12H2zM2 6h12M2 10h12M6 2v12M10 2v12" />)
export const PulseIcon = toIcon(<path d="M1.5 8.5h3l2-5 3 9 2-4h3" />)
export const FileIcon = toIcon(<path d="M3.5 2h6l3 3v9h-9zM9.5 2v3h3" />)
