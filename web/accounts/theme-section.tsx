import { setTheme, type Theme, useTheme } from '../kit/theme.ts'
import styles from './settings.module.css'

const themes: { value: Theme; label: string }[] = [
  { value: 'light', label: 'Light' },
  { value: 'dark', label: 'Dark' },
  { value: 'system', label: 'As the system' },
]

export function ThemeSection() {
  const theme = useTheme()
  return (
    <fieldset className={styles.choices} aria-label="Theme">
      {themes.map(({ value, label }) => (
        <label key={value} className={styles.choice}>
          <input type="radio" name="theme" checked={theme === value} onChange={() => setTheme(value)} />
          {label}
        </label>
      ))}
    </fieldset>
  )
}
