import { Button, IconButton } from '../../design/controls.tsx'

/** The buttons of a schedule or a trigger. */
export function StartActions({
  noun,
  isOn,
  onToggle,
  onDelete,
}: {
  noun: 'schedule' | 'trigger'
  isOn: boolean
  onToggle: () => void
  onDelete: () => void
}) {
  return (
    <span className="row">
      <Button size="small" onClick={onToggle}>
        {isOn ? 'Turn off' : 'Turn on'}
      </Button>
      <IconButton size="small" icon="cross" label={`Delete the ${noun}`} onClick={onDelete} />
    </span>
  )
}
