// A helper for slice tests: a form as a client sends it.
import { type UploadForm, uploadFormOf } from './upload-form.ts'

/** The text fields precede the file. */
export function formWith(
  file: File,
  fields: Record<string, string> = {},
  options = { isHashed: false },
): UploadForm {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  form.append('file', file)
  return uploadFormOf(new Request('http://sluice.test/', { method: 'POST', body: form }), {
    fields: Object.keys(fields),
    ...options,
  })
}
