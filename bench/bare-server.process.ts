// A server that does nothing but answer with the headers and the body it is told. Says its address on its first line.
const { headers, body }: { headers: Record<string, string>; body: string } = JSON.parse(
  process.env.ANSWER ?? '{}',
)
const server = Bun.serve({ port: 0, fetch: () => new Response(body, { headers }) })
console.log(server.url.href)

export {}
