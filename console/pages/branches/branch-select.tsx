import { useQuery } from '@tanstack/react-query'
import { api, ok } from '../../api/client.ts'
import { Select } from '../../design/controls.tsx'

/** Main or an open branch. The empty text is main. */
export function BranchSelect({
  value,
  onChange,
  isLabelShown = false,
}: {
  value: string
  onChange: (branch: string) => void
  isLabelShown?: boolean
}) {
  const { data } = useQuery({
    queryKey: ['branches', 'names'],
    queryFn: () => ok(api.branches.get({ query: { status: 'open' } })),
  })
  const names = (data?.branches ?? []).map(({ name }) => name).filter((name) => name !== 'main')
  const known = value === '' || names.includes(value) ? names : [value, ...names]
  return (
    <Select
      label="Branch"
      isLabelShown={isLabelShown}
      value={value}
      choices={[{ value: '', label: 'main' }, ...known.map((name) => ({ value: name, label: name }))]}
      onChange={onChange}
    />
  )
}
