// The former page had its own address: `/inspector#/run?state=failed` was a list, `#/run/<id>` an instance, and `#/run/<id>@<step>` one
// of its steps. The service sends such an address to the console, and the browser keeps the part after `#`.
import { notFound } from '@tanstack/react-router'
import { INSTANCE_FILTERS, type InstanceFilter, MACHINES, type MachineName } from '../../api/inspector.ts'

type InspectorPlace =
  | { machine: MachineName; id: null; filter: InstanceFilter }
  | { machine: MachineName; id: string; step: string | undefined }

/** The machine of an address. */
export function machineOf(text: string): MachineName {
  const machine = MACHINES.find((each) => each === text)
  if (machine === undefined) throw notFound()
  return machine
}

/** The place in the console that a former address means, from its part after `#`. */
export function placeOf(fragment: string): InspectorPlace {
  const [path = '', query = ''] = fragment.replace(/^[#/]+/, '').split('?')
  const [name, instance = ''] = path.split('/')
  const machine = MACHINES.find((each) => each === name) ?? 'run'
  const [id = '', step = ''] = instance.split('@')
  if (id !== '') return { machine, id, step: /^\d+$/.test(step) ? step : undefined }
  const params = new URLSearchParams(query)
  const filter = Object.fromEntries(
    INSTANCE_FILTERS.flatMap((each) => (params.get(each) ? [[each, params.get(each)]] : [])),
  )
  return { machine, id: null, filter }
}
