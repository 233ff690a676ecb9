// Uploads of files with progress. `fetch` reports no progress of a request, so this is XMLHttpRequest.
import { errorOf } from './errors.ts'
import { API } from './request.ts'
import { credentialHeaders, currentCredential, nextCredential } from './session.ts'

interface UploadOptions {
  onProgress: (share: number) => void
  signal: AbortSignal
}

/** Uploads one file to a landing zone. Throws ApiError, and the signal's reason. */
export function upload(path: string, file: File, { onProgress, signal }: UploadOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest()
    request.open('POST', new URL(path, API))
    const credential = currentCredential()
    for (const [name, value] of Object.entries(credentialHeaders(credential)))
      request.setRequestHeader(name, value)
    request.upload.addEventListener('progress', ({ loaded, total }) =>
      onProgress(total === 0 ? 1 : loaded / total),
    )
    request.addEventListener('load', () => {
      if (request.status < 300) return resolve()
      const error = errorOf(request.status, parsed(request.responseText))
      if (error.status !== 401) return reject(error)
      const repeated = nextCredential(credential, error.message).then(() =>
        upload(path, file, { onProgress, signal }),
      )
      repeated.then(resolve, reject)
    })
    request.addEventListener('error', () => reject(errorOf(0, 'no answer from the service')))
    signal.addEventListener('abort', () => {
      request.abort()
      reject(signal.reason)
    })
    const form = new FormData()
    form.append('file', file, file.name)
    request.send(form)
  })
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
