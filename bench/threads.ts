/** A thread, and the first thing it said. */
export async function startThread<Said>(
  path: URL,
  message: object = {},
): Promise<{ thread: Worker; said: Said }> {
  const thread = new Worker(path)
  const said = await new Promise<Said>((resolve) => {
    thread.onmessage = ({ data }) => resolve(data)
    thread.postMessage(message)
  })
  return { thread, said }
}
