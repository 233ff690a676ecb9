import { Elysia } from 'elysia'
import { ErrorBody } from '../core/names.ts'
import { ReplicaList } from './schema.ts'
import type { ReplicaService } from './service.ts'

export const replicaRoutes = (replicas: ReplicaService) =>
  new Elysia({ prefix: '/admin', tags: ['health'] }).get('/replicas', () => replicas.list(), {
    response: { 200: ReplicaList, 403: ErrorBody },
    detail: {
      operationId: 'listReplicas',
      summary: 'List replicas and runners',
      description:
        'Returns the API processes with the roles that they lead, and the runners with their load.',
    },
  })
