import { useQuery } from '@tanstack/react-query'
import { openBranchesQuery } from '../api/branches.ts'
import { Select } from '../design/controls.tsx'

/** Main or an open branch. The empty text is main, or all branches where `hasAll` is set. */
export function BranchSelect({
  value,
  onChange,
  isLabelShown = false,
  hasAll = false,
}: {
  value: string
  onChange: (branch: string) => void
  isLabelShown?: boolean
  hasAll?: boolean
}) {
  const { data } = useQuery(openBranchesQuery())
  const others = (data?.branches ?? []).map(({ name }) => name).filter((name) => name !== 'main')
  const names = hasAll ? ['main', ...others] : others
  const known = value === '' || names.includes(value) ? names : [value, ...names]
  return (
    <Select
      label="Branch"
      isLabelShown={isLabelShown}
      value={value}
      choices={[
        { value: '', label: hasAll ? 'all' : 'main' },
        ...known.map((name) => ({ value: name, label: name })),
      ]}
      onChange={onChange}
    />
  )
}
