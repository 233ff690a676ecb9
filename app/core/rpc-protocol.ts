/** What addresses of sidecars begin with: Connect (`http`, `https`), or native gRPC without and with TLS. */
export const RPC_PROTOCOL = /^(https?|grpcs?):$/
