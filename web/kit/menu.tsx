import * as Radix from '@radix-ui/react-dropdown-menu'
import type { ReactNode } from 'react'
import { join } from './button.tsx'
import { CheckIcon, RightIcon } from './icons.tsx'
import styles from './menu.module.css'

/** A menu below a button. Not modal: a modal one writes style elements, which the page's security policy refuses. */
export function Menu({
  trigger,
  children,
  align = 'start',
}: {
  trigger: ReactNode
  children: ReactNode
  align?: 'start' | 'end'
}) {
  return (
    <Radix.Root modal={false}>
      <Radix.Trigger asChild>{trigger}</Radix.Trigger>
      <Radix.Portal>
        <Radix.Content className={styles.menu} align={align} sideOffset={4} collisionPadding={8}>
          {children}
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  )
}

type Item = {
  onSelect?: () => void
  icon?: ReactNode
  hint?: ReactNode
  danger?: boolean
  disabled?: boolean
  children: ReactNode
}

export function MenuItem({ icon, hint, danger, children, ...rest }: Item) {
  return (
    <Radix.Item className={join(styles.item, danger && styles.danger)} {...rest}>
      <span className={styles.icon}>{icon}</span>
      <span className={styles.text}>{children}</span>
      {hint && <span className={styles.hint}>{hint}</span>}
    </Radix.Item>
  )
}

/** A link as an item: it opens in a new tab like any link. */
export function MenuLink({ href, icon, children }: { href: string; icon?: ReactNode; children: ReactNode }) {
  return (
    <Radix.Item className={styles.item} asChild>
      <a href={href}>
        <span className={styles.icon}>{icon}</span>
        <span className={styles.text}>{children}</span>
      </a>
    </Radix.Item>
  )
}

export function MenuCheck({
  checked,
  onChange,
  children,
}: {
  checked: boolean
  onChange(checked: boolean): void
  children: ReactNode
}) {
  return (
    <Radix.CheckboxItem
      className={styles.item}
      checked={checked}
      onCheckedChange={onChange}
      onSelect={(event) => event.preventDefault()}
    >
      <span className={styles.icon}>
        <Radix.ItemIndicator>
          <CheckIcon />
        </Radix.ItemIndicator>
      </span>
      <span className={styles.text}>{children}</span>
    </Radix.CheckboxItem>
  )
}

export function MenuChoice<Value extends string>({
  value,
  onChange,
  choices,
}: {
  value: Value
  onChange(value: Value): void
  choices: { value: Value; label: ReactNode }[]
}) {
  return (
    <Radix.RadioGroup value={value} onValueChange={(it) => onChange(it as Value)}>
      {choices.map((it) => (
        <Radix.RadioItem key={it.value} className={styles.item} value={it.value}>
          <span className={styles.icon}>
            <Radix.ItemIndicator>
              <CheckIcon />
            </Radix.ItemIndicator>
          </span>
          <span className={styles.text}>{it.label}</span>
        </Radix.RadioItem>
      ))}
    </Radix.RadioGroup>
  )
}

export function SubMenu({ label, icon, children }: { label: ReactNode; icon?: ReactNode; children: ReactNode }) {
  return (
    <Radix.Sub>
      <Radix.SubTrigger className={styles.item}>
        <span className={styles.icon}>{icon}</span>
        <span className={styles.text}>{label}</span>
        <RightIcon />
      </Radix.SubTrigger>
      <Radix.Portal>
        <Radix.SubContent className={styles.menu} sideOffset={2} collisionPadding={8}>
          {children}
        </Radix.SubContent>
      </Radix.Portal>
    </Radix.Sub>
  )
}

export const MenuLabel = ({ children }: { children: ReactNode }) => (
  <Radix.Label className={styles.label}>{children}</Radix.Label>
)

export const MenuLine = () => <Radix.Separator className={styles.line} />
