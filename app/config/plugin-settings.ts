/** Addresses of plugins; null: the built-in implementation answers. */
export interface PluginSettings {
  auth: string | null
  sharing: string | null
  enforcement: string | null
  /** The secret that identifies this service to its plugins. */
  token: string
  /** Subjects that are administrators regardless of the roles that the auth plugin reports. */
  admins: readonly string[]
}

export const NO_PLUGINS: PluginSettings = {
  auth: null,
  sharing: null,
  enforcement: null,
  token: '',
  admins: [],
}
