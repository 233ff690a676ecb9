import { Kbd } from '../design/controls.tsx'
import { Dialog } from '../design/overlay.tsx'
import { PLACES } from './places.ts'

/** Keys of single pages, shown with the common ones. */
const MORE = [
  ['Ctrl K', 'Search and commands'],
  ['/', 'Go to the search of this page'],
  ['?', 'Show these keys'],
  ['Esc', 'Close what is open'],
  ['Ctrl S', 'Save the draft (pipeline)'],
  ['Ctrl Enter', 'Preview the draft, or execute the query'],
] as const

export function KeysHelp({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }) {
  return (
    <Dialog title="Keys" isOpen={isOpen} onClose={onClose}>
      <dl className="keys">
        {[...MORE, ...PLACES.map(({ key, label }) => [`g ${key}`, `Go to ${label}`] as const)].map(
          ([keys, text]) => (
            <KeyRow key={keys} keys={keys} text={text} />
          ),
        )}
      </dl>
    </Dialog>
  )
}

const KeyRow = ({ keys, text }: { keys: string; text: string }) => (
  <>
    <dt>
      {keys.split(' ').map((key) => (
        <Kbd key={key}>{key}</Kbd>
      ))}
    </dt>
    <dd>{text}</dd>
  </>
)
