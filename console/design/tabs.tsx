import { Tabs as RadixTabs } from 'radix-ui'
import { type ReactNode, useEffect, useRef } from 'react'

/** Parts of a page, of which one is shown. Arrow keys move between their names. */
export function Tabs<Key extends string>({
  label,
  tabs,
  value,
  onChange,
  children,
}: {
  label: string
  tabs: readonly (readonly [key: Key, label: string])[]
  value: Key
  onChange: (key: Key) => void
  /** The content of the shown part. */
  children: ReactNode
}) {
  const list = useRef<HTMLDivElement>(null)
  // On a narrow page the names scroll sideways. The page itself stays.
  useEffect(() => {
    const name = value && list.current?.querySelector<HTMLElement>('[aria-selected=true]')
    if (name && list.current !== null)
      list.current.scrollLeft =
        name.offsetLeft - list.current.offsetLeft - (list.current.clientWidth - name.offsetWidth) / 2
  }, [value])
  return (
    <RadixTabs.Root value={value} onValueChange={(key) => onChange(key as Key)} className="stack">
      <RadixTabs.List ref={list} className="tabs" aria-label={label}>
        {tabs.map(([key, name]) => (
          <RadixTabs.Trigger key={key} value={key}>
            {name}
          </RadixTabs.Trigger>
        ))}
      </RadixTabs.List>
      {/* The panel holds controls of its own, so it is no stop of the Tab key itself. */}
      <RadixTabs.Content value={value} tabIndex={-1}>
        {children}
      </RadixTabs.Content>
    </RadixTabs.Root>
  )
}
