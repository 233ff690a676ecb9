// A server that only counts what it is sent: what of an upload is HTTP itself. Says its address on its first line.
const server = Bun.serve({
  port: 0,
  maxRequestBodySize: 2 ** 31,
  async fetch(request) {
    let bytes = 0
    for await (const chunk of request.body ?? []) bytes += chunk.byteLength
    return Response.json({ bytes }, { status: 201 })
  },
})
console.log(server.url.href)
