import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import {
  changeLifecycle,
  changeZone,
  type Lifecycle,
  lifecycleQuery,
  type Zone,
  type ZoneAt,
} from '../../api/landing-zones.ts'
import { Time } from '../../design/clock.tsx'
import { Button, Checkbox, TextArea, TextField } from '../../design/controls.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { Card, Facts } from '../../design/surfaces.tsx'
import { performing } from '../../design/toasts.tsx'

/** Description, owner and lifecycle of a zone. */
export function Settings({ at, zone }: { at: ZoneAt; zone: Zone }) {
  const query = useQuery(lifecycleQuery(at))
  return (
    <>
      <Card title="Description and owner">
        <About at={at} zone={zone} />
      </Card>
      <Card title="Archived files">
        <Loaded query={query}>
          {(lifecycle) => (
            <LifecycleForm
              key={`${lifecycle.auto_purge} ${lifecycle.processed_max_age_days}`}
              at={at}
              lifecycle={lifecycle}
            />
          )}
        </Loaded>
      </Card>
      <Card title="Facts">
        <Facts
          facts={[
            ['Reference in code', <code key="code">{`{{ landing_zone('${at.name}') }}`}</code>],
            ['Made', <Time key="made" at={zone.created_at} exact />],
            ['Changed', <Time key="changed" at={zone.updated_at} exact />],
          ]}
        />
      </Card>
    </>
  )
}

function About({ at, zone }: { at: ZoneAt; zone: Zone }) {
  const [description, setDescription] = useState(zone.description)
  const [owner, setOwner] = useState(zone.owner ?? '')
  // Only changed fields are sent, because fewer people may change the owner.
  const changes = {
    ...(description !== zone.description && { description }),
    ...(owner !== (zone.owner ?? '') && { owner: owner === '' ? null : owner }),
  }
  const save = () => performing(changeZone(at, changes), 'The zone is changed')
  return (
    <form
      className="stack zone-form"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      <TextArea
        label="Description"
        hint="What the files contain, and who sends them"
        rows={3}
        value={description}
        onChange={(event) => setDescription(event.target.value)}
      />
      <TextField
        label="Owner"
        hint="The user with all rights on the zone. Empty: no owner."
        value={owner}
        onChange={(event) => setOwner(event.target.value)}
      />
      <div>
        <Button type="submit" kind="primary" disabled={Object.keys(changes).length === 0}>
          Save
        </Button>
      </div>
    </form>
  )
}

function LifecycleForm({ at, lifecycle }: { at: ZoneAt; lifecycle: Lifecycle }) {
  const [days, setDays] = useState(String(lifecycle.processed_max_age_days))
  const [isPurged, setPurged] = useState(lifecycle.auto_purge)
  const isChanged =
    Number(days) !== lifecycle.processed_max_age_days || isPurged !== lifecycle.auto_purge || days === ''
  const save = () =>
    performing(
      changeLifecycle(at, { processed_max_age_days: Number(days), auto_purge: isPurged }),
      'The lifecycle is changed',
    )
  return (
    <form
      className="stack zone-form"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      <p>
        A successful run of a pipeline with <code>archive_landing_zones</code> archives the files that it
        read. Files that wait are never deleted by age.
      </p>
      <Checkbox
        label="Delete archived files by age"
        checked={isPurged}
        onChange={(event) => setPurged(event.target.checked)}
      />
      <TextField
        label="Days until an archived file is deleted"
        type="number"
        min={0}
        max={36_500}
        step={1}
        required
        disabled={!isPurged}
        hint={isPurged ? 'Counted from the archiving run' : 'Archived files are kept forever'}
        value={days}
        onChange={(event) => setDays(event.target.value)}
      />
      <div>
        <Button type="submit" kind="primary" disabled={!isChanged}>
          Save the lifecycle
        </Button>
      </div>
    </form>
  )
}
