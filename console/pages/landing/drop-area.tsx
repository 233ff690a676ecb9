import { useEffect, useState } from 'react'
import { Button } from '../../design/controls.tsx'
import { bytes } from '../../design/format.ts'
import { Icon } from '../../design/icons.tsx'
import { Card } from '../../design/surfaces.tsx'
import { cancel, clear, isActive, send, useTransfers } from './transfers.ts'

/** Takes files by drag and drop or by a dialog, and sends them one after the other. */
export function DropArea({
  path,
  noun,
  onStored,
}: {
  path: string
  noun: 'files' | 'samples'
  onStored: () => void
}) {
  const transfers = useTransfers(path)
  const [isOver, setOver] = useState(false)
  useEffect(() => {
    addEventListener('dragover', refuse)
    addEventListener('drop', refuse)
    return () => {
      removeEventListener('dragover', refuse)
      removeEventListener('drop', refuse)
    }
  }, [])
  const take = (files: Iterable<File>) => send(path, files, onStored)
  return (
    <Card>
      <label
        className="drop"
        data-over={isOver}
        onDragOver={(event) => {
          event.preventDefault()
          setOver(true)
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault()
          setOver(false)
          take([...event.dataTransfer.files])
        }}
      >
        <Icon name="landing" size={26} />
        <span>
          <b>Drop {noun} here.</b> CSV, JSON and Parquet can be read; 32 MB each at most.
        </span>
        <span className="button" aria-hidden="true">
          Choose {noun}
        </span>
        <input
          type="file"
          multiple
          className="visually-hidden"
          aria-label={`Choose ${noun}`}
          onChange={(event) => {
            take([...(event.target.files ?? [])])
            // The same file can be chosen again.
            event.target.value = ''
          }}
        />
      </label>
      {transfers.length > 0 && (
        <>
          <ul className="transfers" aria-label="Uploads">
            {transfers.map((transfer) => (
              <li key={transfer.id} data-state={transfer.state}>
                <span className="grow ellipsis">{transfer.name}</span>
                <span className="muted">{bytes(transfer.size)}</span>
                <progress aria-label={`Progress of ${transfer.name}`} value={transfer.share} max={1} />
                <span>{transfer.problem || transfer.state}</span>
                {isActive(transfer) && (
                  <Button size="small" onClick={() => cancel(path, transfer)}>
                    Cancel
                  </Button>
                )}
              </li>
            ))}
          </ul>
          {!transfers.some(isActive) && (
            <Button size="small" kind="quiet" onClick={() => clear(path)}>
              Clear the list of uploads
            </Button>
          )}
        </>
      )}
    </Card>
  )
}

/** Without this, a browser leaves the console for a file that is dropped beside the area. */
function refuse(event: DragEvent): void {
  const { dataTransfer } = event
  if (event.defaultPrevented || !dataTransfer?.types.includes('Files')) return
  event.preventDefault()
  dataTransfer.dropEffect = 'none'
}
