import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { useState } from 'react'
import {
  deleteZone,
  uploadPathOf,
  type Zone,
  type ZoneAt,
  zoneQuery,
  zonesChanged,
} from '../../api/landing-zones.ts'
import { CopyButton } from '../../design/controls.tsx'
import { bytes, counted } from '../../design/format.ts'
import { Icon } from '../../design/icons.tsx'
import { Loaded } from '../../design/loaded.tsx'
import { FormDialog, Menu } from '../../design/overlay.tsx'
import { Page } from '../../design/surfaces.tsx'
import { Tabs } from '../../design/tabs.tsx'
import { useFilters } from '../../shell/filters.ts'
import { DropArea } from './drop-area.tsx'
import { Files } from './files.tsx'
import { Readers } from './readers.tsx'
import { Reads } from './reads.tsx'
import { Samples } from './samples.tsx'
import { Schema } from './schema.tsx'
import { Settings } from './settings.tsx'

const TABS = [
  ['files', 'Files'],
  ['schema', 'Schema and rows'],
  ['samples', 'Samples'],
  ['reads', 'Runs'],
  ['readers', 'Pipelines and triggers'],
  ['settings', 'Settings'],
] as const

/** One landing zone. The tab is in the address, and so is the file that a tab is about. */
export default function ZonePage() {
  const at = useParams({ from: '/landing-zones/$ns/$name' })
  const [filters, change] = useFilters('/landing-zones/$ns/$name')
  const tab = TABS.find(([key]) => key === filters.tab)?.[0] ?? 'files'
  const open = (key: string, file = '') => change({ tab: key === 'files' ? '' : key, file, offset: '' })
  const query = useQuery(zoneQuery(at))
  return (
    <Page
      title={`${at.ns}.${at.name}`}
      crumbs={<Link to="/landing-zones">Landing zones</Link>}
      subtitle={query.data && <Summary zone={query.data} />}
      actions={<ZoneActions at={at} />}
    >
      <Tabs label="Parts of the landing zone" tabs={TABS} value={tab} onChange={(key) => open(key)}>
        <div className="stack">
          <Loaded query={query}>
            {(zone) => (
              <>
                {tab === 'files' && (
                  <>
                    <DropArea
                      path={uploadPathOf(at, 'files')}
                      noun="files"
                      onStored={() => void zonesChanged()}
                    />
                    <Files at={at} total={zone.file_count} open={open} />
                  </>
                )}
                {tab === 'schema' && <Schema at={at} zone={zone} />}
                {tab === 'samples' && (
                  <>
                    <DropArea
                      path={uploadPathOf(at, 'samples')}
                      noun="samples"
                      onStored={() => void zonesChanged()}
                    />
                    <Samples at={at} zone={zone} />
                  </>
                )}
                {tab === 'reads' && <Reads at={at} open={open} />}
                {tab === 'readers' && <Readers at={at} />}
                {tab === 'settings' && <Settings at={at} zone={zone} />}
              </>
            )}
          </Loaded>
        </div>
      </Tabs>
    </Page>
  )
}

function Summary({ zone }: { zone: Zone }) {
  return (
    <>
      {zone.description && <span className="zone-description">{zone.description}</span>}
      <span>
        {counted(zone.file_count, 'file')} in the zone, {bytes(zone.total_bytes)}
        {zone.owner !== null && <>, owned by {zone.owner}</>}
      </span>
    </>
  )
}

function ZoneActions({ at }: { at: ZoneAt }) {
  const navigate = useNavigate()
  const [isDeleting, setDeleting] = useState(false)
  return (
    <>
      <CopyButton label="Copy the reference" text={`{{ landing_zone('${at.name}') }}`} />
      <Link
        className="button"
        data-kind="primary"
        to="/pipelines"
        search={{ create: at.name, namespace: at.ns }}
      >
        <Icon name="plus" />
        New pipeline from this zone
      </Link>
      <Menu
        label="More actions"
        items={[
          {
            label: 'Delete the zone',
            icon: 'cross',
            isDangerous: true,
            onSelect: () => setDeleting(true),
          },
        ]}
      />
      <FormDialog
        title={`Delete ${at.ns}.${at.name}`}
        description="All its files and samples are deleted. Tables that were made from them stay."
        isOpen={isDeleting}
        onClose={() => setDeleting(false)}
        submitLabel="Delete the zone"
        isDangerous
        submit={async () => {
          await deleteZone(at)
          await navigate({ to: '/landing-zones' })
        }}
      />
    </>
  )
}
