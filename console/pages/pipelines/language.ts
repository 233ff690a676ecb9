/** The language in which a file is shown. */
export const languageOf = (name: string) =>
  name.endsWith('.py') ? 'python' : /\.ya?ml$/.test(name) ? 'yaml' : 'sql'
