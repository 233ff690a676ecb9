import { useQuery } from '@tanstack/react-query'
import { deleteSample, samplesQuery, type Zone, type ZoneAt } from '../../api/landing-zones.ts'
import { Time } from '../../design/clock.tsx'
import { IconButton } from '../../design/controls.tsx'
import { bytes, counted } from '../../design/format.ts'
import { Loaded } from '../../design/loaded.tsx'
import { Card, Empty, Notice } from '../../design/surfaces.tsx'
import { Table } from '../../design/table.tsx'
import { performing } from '../../design/toasts.tsx'

/** The samples of a zone: files that previews read while the zone has no file. */
export function Samples({ at, zone }: { at: ZoneAt; zone: Zone }) {
  const query = useQuery(samplesQuery(at))
  const remove = (filename: string) => performing(deleteSample(at, filename), `${filename} is deleted`)
  return (
    <Card title="Samples" isFlush>
      <Loaded query={query}>
        {({ files }) =>
          files.length === 0 ? (
            <Empty icon="landing" title="No sample">
              A sample shows what the files of this zone look like. It starts no run, and no run reads it.
              Previews of pipelines read the samples while the zone has no file.
            </Empty>
          ) : (
            <>
              <div className="card-body">
                <Notice>
                  {zone.file_count === 0
                    ? 'The zone has no file, so previews of pipelines read these samples. Runs never read samples.'
                    : `The zone has ${counted(zone.file_count, 'file')}, so previews of pipelines read files and not these samples.`}{' '}
                  An upload replaces the sample of the same name.
                </Notice>
              </div>
              <Table
                label="Samples"
                rows={files}
                keyOf={({ path }) => path}
                columns={[
                  { name: 'Sample', cell: ({ path }) => <span className="long-name">{nameOf(path)}</span> },
                  { name: 'Size', isNumeric: true, cell: ({ size }) => bytes(size) },
                  { name: 'Changed', cell: ({ modified }) => <Time at={modified} /> },
                  {
                    name: 'Actions',
                    cell: ({ path }) => (
                      <IconButton
                        icon="cross"
                        size="small"
                        label={`Delete ${nameOf(path)}`}
                        onClick={() => void remove(nameOf(path))}
                      />
                    ),
                  },
                ]}
              />
            </>
          )
        }
      </Loaded>
    </Card>
  )
}

const nameOf = (path: string): string => path.slice(path.indexOf('/_samples/') + '/_samples/'.length)
