/** Addresses of plugins; null: what is built in answers. */
export interface PluginSettings {
  auth: string | null
  sharing: string | null
  enforcement: string | null
  /** Tells them that it is we who ask. */
  token: string
  /** Subjects that are administrators whatever the auth plugin says of their roles. */
  admins: readonly string[]
}

export const NO_PLUGINS: PluginSettings = {
  auth: null,
  sharing: null,
  enforcement: null,
  token: '',
  admins: [],
}
