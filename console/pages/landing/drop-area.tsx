import { useRef, useState } from 'react'
import { messageOf } from '../../api/errors.ts'
import { Button } from '../../design/controls.tsx'
import { bytes } from '../../design/format.ts'
import { Icon } from '../../design/icons.tsx'
import { Card } from '../../design/surfaces.tsx'
import { upload } from './uploads.ts'

interface Transfer {
  id: number
  name: string
  size: number
  share: number
  state: 'waiting' | 'sending' | 'stored' | 'failed' | 'cancelled'
  problem: string
  abort: AbortController
}

const ACTIVE: readonly Transfer['state'][] = ['waiting', 'sending']

let lastId = 0

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
  const [transfers, setTransfers] = useState<readonly Transfer[]>([])
  const [isOver, setOver] = useState(false)
  const turn = useRef(Promise.resolve())
  const change = (id: number, changes: Partial<Transfer>) =>
    setTransfers((before) => before.map((each) => (each.id === id ? { ...each, ...changes } : each)))
  const send = async (transfer: Transfer, file: File) => {
    if (transfer.abort.signal.aborted) return
    change(transfer.id, { state: 'sending' })
    try {
      await upload(path, file, {
        signal: transfer.abort.signal,
        onProgress: (share) => change(transfer.id, { share }),
      })
      change(transfer.id, { state: 'stored', share: 1 })
      onStored()
    } catch (error) {
      const isCancelled = transfer.abort.signal.aborted
      change(
        transfer.id,
        isCancelled ? { state: 'cancelled' } : { state: 'failed', problem: messageOf(error) },
      )
    }
  }
  const take = (files: Iterable<File>) => {
    for (const file of files) {
      lastId += 1
      const transfer: Transfer = {
        id: lastId,
        name: file.name,
        size: file.size,
        share: 0,
        state: 'waiting',
        problem: '',
        abort: new AbortController(),
      }
      setTransfers((before) => [...before, transfer])
      turn.current = turn.current.then(() => send(transfer, file))
    }
  }
  const cancel = (transfer: Transfer) => {
    transfer.abort.abort()
    change(transfer.id, { state: 'cancelled' })
  }
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
          take(event.dataTransfer.files)
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
            take(event.target.files ?? [])
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
                {ACTIVE.includes(transfer.state) && (
                  <Button size="small" onClick={() => cancel(transfer)}>
                    Cancel
                  </Button>
                )}
              </li>
            ))}
          </ul>
          {transfers.every(({ state }) => !ACTIVE.includes(state)) && (
            <Button size="small" kind="quiet" onClick={() => setTransfers([])}>
              Clear the list of uploads
            </Button>
          )}
        </>
      )}
    </Card>
  )
}
