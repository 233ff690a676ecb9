// Requests about namespaces and names of an Iceberg REST catalog. Source: Iceberg REST catalog OpenAPI.
import { type Static, Type } from '@sinclair/typebox'
import { checked, Properties, parseBody, TableIdentifier } from './wire.ts'

const CreateNamespace = Type.Object({
  namespace: Type.Array(Type.String(), { minItems: 1 }),
  properties: Type.Optional(Properties),
})
type CreateNamespaceRequest = Static<typeof CreateNamespace>

/** @throws BadUpdate */
export const parseCreateNamespace = (text: string): CreateNamespaceRequest =>
  checked(CreateNamespace, parseBody(text), '')

const UpdateProperties = Type.Object({
  removals: Type.Optional(Type.Array(Type.String(), { uniqueItems: true })),
  updates: Type.Optional(Properties),
})

/** @throws BadUpdate */
export function parseUpdateProperties(text: string): Required<Static<typeof UpdateProperties>> {
  const { removals = [], updates = {} } = checked(UpdateProperties, parseBody(text), '')
  return { removals, updates }
}

const Rename = Type.Object({ source: TableIdentifier, destination: TableIdentifier })

/** The body of a request that renames a table or a view. @throws BadUpdate */
export const parseRename = (text: string): Static<typeof Rename> => checked(Rename, parseBody(text), '')

const Register = Type.Object({
  name: Type.String({ minLength: 1 }),
  'metadata-location': Type.String({ minLength: 1 }),
  overwrite: Type.Optional(Type.Boolean()),
})

/** The body of a request that registers a metadata file as a table. @throws BadUpdate */
export const parseRegister = (text: string): Static<typeof Register> => checked(Register, parseBody(text), '')
