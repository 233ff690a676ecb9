import { useSyncExternalStore } from 'react'

export type Theme = 'auto' | 'light' | 'dark'

const ENTRY = 'sluice-theme'
const prefersDark = matchMedia('(prefers-color-scheme: dark)')
const listeners = new Set<() => void>()

const stored = (): Theme => {
  const value = localStorage.getItem(ENTRY)
  return value === 'light' || value === 'dark' ? value : 'auto'
}

function apply(): void {
  const theme = stored()
  const isDark = theme === 'dark' || (theme === 'auto' && prefersDark.matches)
  document.documentElement.dataset.theme = isDark ? 'dark' : 'light'
  for (const listener of listeners) listener()
}

/** Follows the setting of the system until the person chooses. */
export function startTheme(): void {
  apply()
  prefersDark.addEventListener('change', apply)
}

export function chooseTheme(theme: Theme): void {
  if (theme === 'auto') localStorage.removeItem(ENTRY)
  else localStorage.setItem(ENTRY, theme)
  apply()
}

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
export const useTheme = (): Theme => useSyncExternalStore(subscribe, stored)
/** Whether the page is dark now; for what draws on a canvas. */
export const useIsDark = (): boolean =>
  useSyncExternalStore(subscribe, () => document.documentElement.dataset.theme === 'dark')
