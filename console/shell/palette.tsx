import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useId, useState } from 'react'
import { messageOf } from '../api/errors.ts'
import { foundPipelinesQuery } from '../api/pipelines.ts'
import { Icon, type IconName } from '../design/icons.tsx'
import { Dialog } from '../design/overlay.tsx'
import { PLACES } from './places.ts'
import { chooseTheme } from './theme.ts'

interface Command {
  id: string
  label: string
  hint: string
  icon: IconName
  run: () => void
}

/** Commands and pipelines that are shown at once. */
const SHOWN = 12

/** Finds a place, a pipeline, a table or a command by its name. */
export function Palette({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  return (
    <Dialog title="Search and commands" isOpen={isOpen} onClose={onClose}>
      <PaletteList onClose={onClose} />
    </Dialog>
  )
}

/** Arrow keys may choose a command below the visible part of the list. */
const scrollTo = (option: HTMLElement | null) => option?.scrollIntoView({ block: 'nearest' })

function PaletteList({ onClose }: { onClose: () => void }) {
  const [text, setText] = useState('')
  const [chosen, setChosen] = useState(0)
  const listId = useId()
  const { commands, missing } = useCommands(text)
  const active = Math.min(chosen, commands.length - 1)
  const run = (command: Command | undefined) => {
    if (command === undefined) return
    onClose()
    command.run()
  }
  return (
    <div className="palette">
      <input
        role="combobox"
        aria-label="Search for a page, a pipeline or a command"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={commands[active] && `${listId}-${active}`}
        placeholder="Page, pipeline or command"
        spellCheck={false}
        autoComplete="off"
        value={text}
        onChange={(event) => {
          setText(event.target.value)
          setChosen(0)
        }}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') setChosen(Math.min(active + 1, commands.length - 1))
          else if (event.key === 'ArrowUp') setChosen(Math.max(active - 1, 0))
          else if (event.key === 'Enter') run(commands[active])
          else return
          event.preventDefault()
        }}
      />
      <ul id={listId} role="listbox" aria-label="Results">
        {commands.map((command, index) => (
          <li
            key={command.id}
            id={`${listId}-${index}`}
            role="option"
            aria-selected={index === active}
            ref={index === active ? scrollTo : undefined}
            onMouseMove={() => setChosen(index)}
            onClick={() => run(command)}
          >
            <Icon name={command.icon} />
            <span className="ellipsis">{command.label}</span>
            <small>{command.hint}</small>
          </li>
        ))}
      </ul>
      {commands.length === 0 && (
        <p className="muted" role="status">
          {missing}
        </p>
      )}
    </div>
  )
}

/** The commands that fit a text, and why there may be none. */
function useCommands(text: string): { commands: Command[]; missing: string } {
  const navigate = useNavigate()
  const search = text.trim()
  const { data, error, isFetching } = useQuery(foundPipelinesQuery(search, SHOWN))
  const fixed: Command[] = [
    ...PLACES.map(({ path, label, icon, key }) => ({
      id: path,
      label,
      hint: `g ${key}`,
      icon,
      run: () => void navigate({ to: path }),
    })),
    {
      id: '/welcome',
      label: 'Tour',
      hint: 'five minutes',
      icon: 'runs',
      run: () => void navigate({ to: '/welcome' }),
    },
    ...(['light', 'dark', 'auto'] as const).map((theme) => ({
      id: `theme-${theme}`,
      label: theme === 'auto' ? 'Colours of the system' : `${theme === 'dark' ? 'Dark' : 'Light'} colours`,
      hint: 'theme',
      icon: theme === 'dark' ? ('moon' as const) : ('sun' as const),
      run: () => chooseTheme(theme),
    })),
  ]
  const found: Command[] = (search === '' ? [] : (data?.pipelines ?? [])).map(
    ({ namespace, layer, name }) => ({
      id: `${namespace}.${layer}.${name}`,
      label: `${namespace}.${layer}.${name}`,
      hint: 'pipeline',
      icon: 'pipelines',
      run: () => void navigate({ to: '/pipelines/$ns/$layer/$name', params: { ns: namespace, layer, name } }),
    }),
  )
  // The answer may still be that to an earlier text.
  const matching = [...fixed, ...found].filter(({ label }) =>
    label.toLowerCase().includes(search.toLowerCase()),
  )
  const missing = error ? messageOf(error) : isFetching ? 'Searching…' : 'Nothing has this name.'
  return { commands: matching.slice(0, SHOWN + PLACES.length), missing }
}
