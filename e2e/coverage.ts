/**
 * The rows of the specification, and the test that proves each: the file and the title, as `playwright test --list` names
 * them. `COVERAGE.md` is made from this, and the checks refuse a row without a test and a test that does not exist.
 */
export interface Row {
  id: string
  text: string
  /** `file › title`, with the titles of what it is described in before its own. */
  test: string
}
export interface Section {
  title: string
  rows: Row[]
}

export const COVERAGE: Section[] = [
  {
    title: 'Conventions',
    rows: [
      {
        id: 'convention.prefix',
        text: 'Everything of the API is below /api/v1; an unknown address is 404 in the envelope',
        test: 'conventions.spec.ts › an unknown route is 404 in the envelope',
      },
      {
        id: 'convention.method',
        text: 'A known address with another method is 405',
        test: 'conventions.spec.ts › a known path with another method is 405 and names the methods it knows',
      },
      {
        id: 'convention.json',
        text: 'Malformed JSON, another content type and wrong shapes are 400',
        test: 'conventions.spec.ts › malformed JSON, another content type and a wrong shape are 400',
      },
      {
        id: 'convention.coding',
        text: 'A compressed body is 400 naming the header',
        test: 'conventions.spec.ts › a compressed body is 400, naming the header',
      },
      {
        id: 'convention.text',
        text: 'Text that cannot be stored is 400 naming the field',
        test: 'conventions.spec.ts › text that Postgres cannot store is 400, naming the field',
      },
      {
        id: 'convention.text-limit',
        text: 'A text that is too long is 400 naming the field',
        test: 'limits.spec.ts › a text that is too long is 400 naming its field, wherever one may be sent',
      },
      {
        id: 'convention.host',
        text: 'A Host that is none is 400',
        test: 'conventions.spec.ts › a Host that is none is 400, never a 500',
      },
      {
        id: 'convention.body-limit',
        text: 'A JSON body that is too large is 413',
        test: 'conventions.spec.ts › a JSON body over 1 MiB is 413, however it is sent',
      },
      {
        id: 'convention.link-length',
        text: 'Link is never longer than proxies let through',
        test: 'lists.spec.ts › links of a list are as long as proxies let through, however long its filter',
      },
      {
        id: 'convention.page',
        text: 'limit defaults to 50 and is at most 200, offset defaults to 0',
        test: 'conventions.spec.ts › a page is bounded: too large is clamped, nonsense is the default',
      },
      {
        id: 'convention.sort',
        text: 'sort and order, by default created_at and desc',
        test: 'pipelines.spec.ts › list › is newest first, filtered, searched, sorted and paged, with an exact total',
      },
      {
        id: 'convention.generated',
        text: 'Whatever is sent is answered as declared, and is never a 500',
        test: 'fuzz.spec.ts › generated requests get declared answers, and never a 500',
      },
    ],
  },
  {
    title: 'Naming rules',
    rows: [
      {
        id: 'name.namespace',
        text: 'Namespace: lowercase, digits and hyphens, starts with a letter, 3 to 63 characters',
        test: 'namespaces.spec.ts › names that break the rule are 400, naming the field',
      },
      {
        id: 'name.namespace.default',
        text: 'The namespace default always exists',
        test: 'namespaces.spec.ts › a namespace is created, listed, described and deleted',
      },
      {
        id: 'name.pipeline',
        text: 'Pipeline: lowercase, digits, hyphens, underscores',
        test: 'pipelines.spec.ts › create › with name "Upper" is 400 naming it',
      },
      {
        id: 'name.zone',
        text: 'Zone: lowercase, digits, hyphens',
        test: 'landing-zones.spec.ts › create with a bad field is 400 naming it, of a taken name 409',
      },
      {
        id: 'name.test',
        text: 'Quality test: lowercase, digits, hyphens; its file has its name',
        test: 'quality-tests.spec.ts › create with a bad field is 400 naming it and writes nothing',
      },
    ],
  },
  {
    title: 'Pipelines',
    rows: [
      {
        id: 'pipelines.list',
        text: 'GET /pipelines 200, filters, search, sort, pages',
        test: 'pipelines.spec.ts › list › is newest first, filtered, searched, sorted and paged, with an exact total',
      },
      {
        id: 'pipelines.list.shape',
        text: 'Listed pipelines have no s3_path and have last_run',
        test: 'pipelines.spec.ts › list › leaves out s3_path and has last_run',
      },
      {
        id: 'pipelines.list.400',
        text: 'GET /pipelines 400',
        test: 'pipelines.spec.ts › list › by sort owner is 400 naming it',
      },
      {
        id: 'pipelines.create',
        text: 'POST /pipelines 201 with s3_path and files_created',
        test: 'pipelines.spec.ts › a pipeline is created, found, changed and deleted',
      },
      {
        id: 'pipelines.create.source',
        text: 'source and type decide the first source file',
        test: 'pipelines.spec.ts › create › from a table, a landing zone or nothing writes a source that publishes',
      },
      {
        id: 'pipelines.create.python',
        text: 'type python writes pipeline.py',
        test: 'pipelines.spec.ts › create › of a python pipeline writes pipeline.py',
      },
      {
        id: 'pipelines.create.unique_key',
        text: 'unique_key makes it incremental',
        test: 'pipelines.spec.ts › create › with a unique key makes it incremental',
      },
      {
        id: 'pipelines.create.400',
        text: 'POST /pipelines 400 INVALID_ARGUMENT',
        test: 'pipelines.spec.ts › create › with layer "copper" is 400 naming it',
      },
      {
        id: 'pipelines.create.409',
        text: 'POST /pipelines 409 ALREADY_EXISTS',
        test: 'pipelines.spec.ts › create › of a name that is taken is 409',
      },
      {
        id: 'pipelines.get',
        text: 'GET /pipelines/{ns}/{layer}/{name} 200',
        test: 'pipelines.spec.ts › a pipeline is created, found, changed and deleted',
      },
      {
        id: 'pipelines.get.404',
        text: 'GET /pipelines/{ns}/{layer}/{name} 404',
        test: 'pipelines.spec.ts › what cannot be the address of a pipeline is 404',
      },
      {
        id: 'pipelines.update',
        text: 'PUT /pipelines/{ns}/{layer}/{name} 200, partial',
        test: 'pipelines.spec.ts › a pipeline is created, found, changed and deleted',
      },
      {
        id: 'pipelines.update.400',
        text: 'PUT /pipelines/{ns}/{layer}/{name} 400',
        test: 'pipelines.spec.ts › an update with a bad field is 400 naming it and changes nothing',
      },
      {
        id: 'pipelines.update.403',
        text: 'PUT /pipelines/{ns}/{layer}/{name} 403 AUTHORIZATION (Pro)',
        test: 'sharing-pro.spec.ts › who may only read a pipeline can neither change nor delete it: 403',
      },
      {
        id: 'pipelines.update.404',
        text: 'PUT /pipelines/{ns}/{layer}/{name} 404',
        test: 'pipelines.spec.ts › what cannot be the address of a pipeline is 404',
      },
      {
        id: 'pipelines.delete',
        text: 'DELETE /pipelines/{ns}/{layer}/{name} 204, soft; its files go',
        test: 'pipelines.spec.ts › a pipeline is created, found, changed and deleted',
      },
      {
        id: 'pipelines.delete.403',
        text: 'DELETE /pipelines/{ns}/{layer}/{name} 403 AUTHORIZATION (Pro)',
        test: 'sharing-pro.spec.ts › who may only read a pipeline can neither change nor delete it: 403',
      },
      {
        id: 'pipelines.delete.404',
        text: 'DELETE /pipelines/{ns}/{layer}/{name} 404',
        test: 'pipelines.spec.ts › what cannot be the address of a pipeline is 404',
      },
      {
        id: 'pipelines.preview',
        text: 'POST .../preview 200: rows, phases, explain, memory, warnings; no run',
        test: 'preview.spec.ts › a preview answers with rows and what it took, and changes nothing',
      },
      {
        id: 'pipelines.preview.code',
        text: 'code takes the place of the source',
        test: 'preview.spec.ts › code is previewed in place of the source, on tables as readers see them',
      },
      {
        id: 'pipelines.preview.sample_files',
        text: 'sample_files are what landing_zone() covers',
        test: 'preview.spec.ts › a landing zone shows its files, its samples while there are none, or the files that are asked for',
      },
      {
        id: 'pipelines.preview.400',
        text: 'POST .../preview 400',
        test: 'preview.spec.ts › what is wrong is said with its file and line',
      },
      {
        id: 'pipelines.preview.404',
        text: 'POST .../preview 404',
        test: 'preview.spec.ts › a pipeline that is not there has no preview',
      },
      {
        id: 'pipelines.preview.503.off',
        text: 'POST .../preview 503 where there is no runner',
        test: 'unavailable.spec.ts › a part that is switched off › a preview is 503 without a runner',
      },
      {
        id: 'pipelines.preview.503.away',
        text: 'POST .../preview 503 where the runner does not answer',
        test: 'unavailable.spec.ts › a part that does not answer › a preview is 503 without a runner',
      },
      {
        id: 'pipelines.publish',
        text: 'POST .../publish 200 with version, message and versions',
        test: 'pipelines.spec.ts › publish › pins every file, clears the draft flag, and later writes only set it again',
      },
      {
        id: 'pipelines.publish.message',
        text: 'The body of publish is optional',
        test: 'pipelines.spec.ts › publish › needs no body, and a message that is text',
      },
      {
        id: 'pipelines.publish.404',
        text: 'POST .../publish 404',
        test: 'pipelines.spec.ts › what cannot be the address of a pipeline is 404',
      },
      {
        id: 'pipelines.publish.422',
        text: 'POST .../publish 422 with a body of its own',
        test: 'pipelines.spec.ts › publish › of a template that does not parse is 422 with the report of the files',
      },
      {
        id: 'pipelines.publish.no-runner.off',
        text: 'Without a runner publish proceeds',
        test: 'unavailable.spec.ts › a part that is switched off › publishing proceeds without a runner, and says that nothing was validated',
      },
      {
        id: 'pipelines.publish.no-runner.away',
        text: 'With a runner that does not answer publish proceeds',
        test: 'unavailable.spec.ts › a part that does not answer › publishing proceeds without a runner, and says that nothing was validated',
      },
      {
        id: 'pipelines.versions',
        text: 'GET .../versions 200, newest first, with total',
        test: 'pipelines.spec.ts › versions › are listed newest first and paged',
      },
      {
        id: 'pipelines.versions.404',
        text: 'GET .../versions 404',
        test: 'pipelines.spec.ts › what cannot be the address of a pipeline is 404',
      },
      {
        id: 'pipelines.version',
        text: 'GET .../versions/{number} 200',
        test: 'pipelines.spec.ts › publish › pins every file, clears the draft flag, and later writes only set it again',
      },
      {
        id: 'pipelines.version.400',
        text: 'GET .../versions/{number} 400',
        test: 'pipelines.spec.ts › versions › a number that is none is 400, one that does not exist 404',
      },
      {
        id: 'pipelines.version.404',
        text: 'GET .../versions/{number} 404',
        test: 'pipelines.spec.ts › versions › a number that is none is 400, one that does not exist 404',
      },
      {
        id: 'pipelines.rollback',
        text: 'POST .../rollback 200 with from_version and new_version',
        test: 'pipelines.spec.ts › versions › a rollback makes a new version of the old files and leaves the draft alone',
      },
      {
        id: 'pipelines.rollback.atomic',
        text: 'Rollback is atomic beside publishes',
        test: 'pipelines.spec.ts › versions › are 1 to n without gaps when publishes and rollbacks race',
      },
      {
        id: 'pipelines.rollback.400',
        text: 'POST .../rollback 400',
        test: 'pipelines.spec.ts › versions › a rollback to no version is 404, to what is no version 400',
      },
      {
        id: 'pipelines.rollback.404',
        text: 'POST .../rollback 404',
        test: 'pipelines.spec.ts › versions › a rollback to no version is 404, to what is no version 400',
      },
    ],
  },
  {
    title: 'Draft and publish',
    rows: [
      {
        id: 'draft.dirty',
        text: 'Writing or deleting a file marks the draft dirty',
        test: 'pipelines.spec.ts › publish › a file that is uploaded or deleted marks the draft dirty too',
      },
      {
        id: 'draft.published',
        text: 'Publish clears the flag and pins the files',
        test: 'pipelines.spec.ts › publish › pins every file, clears the draft flag, and later writes only set it again',
      },
      {
        id: 'draft.pinned',
        text: 'Runs read the pinned files; later edits do not affect them',
        test: 'runs.spec.ts › a run › executes the published version although the draft has changed since',
      },
      {
        id: 'draft.rollback',
        text: 'Rollback adds a version and leaves history and draft alone',
        test: 'pipelines.spec.ts › versions › a rollback makes a new version of the old files and leaves the draft alone',
      },
      {
        id: 'draft.never-published',
        text: 'What was never published is not run by triggers',
        test: 'triggers.spec.ts › a trigger that is disabled, or whose pipeline was never published, starts nothing',
      },
      {
        id: 'draft.deleted',
        text: 'A deleted pipeline is purged for good after its days',
        test: 'retention.spec.ts › a service of our own › a deleted pipeline goes for good, and one that has its name since loses nothing',
      },
      {
        id: 'version.numbers',
        text: 'Version numbers are sequential from 1',
        test: 'pipelines.spec.ts › versions › are 1 to n without gaps when publishes and rollbacks race',
      },
    ],
  },
  {
    title: 'Runs',
    rows: [
      {
        id: 'runs.list',
        text: 'GET /runs 200 with filters, sort, pages; without error',
        test: 'runs.spec.ts › the list › filters, sorts, counts and links',
      },
      {
        id: 'runs.list.400',
        text: 'GET /runs 400',
        test: 'runs.spec.ts › the list › status=done is 400 naming the parameter',
      },
      {
        id: 'runs.create',
        text: 'POST /runs 202 pending',
        test: 'runs.spec.ts › a run › is accepted, executed and merged, and says so in every field',
      },
      {
        id: 'runs.create.trigger',
        text: 'trigger is manual unless given',
        test: 'runs.spec.ts › a run › keeps the trigger it was given',
      },
      {
        id: 'runs.create.400',
        text: 'POST /runs 400',
        test: 'runs.spec.ts › requests that cannot be › an unknown layer: 400 naming the field',
      },
      {
        id: 'runs.create.404',
        text: 'POST /runs 404',
        test: 'runs.spec.ts › requests that cannot be › an unknown pipeline: 404',
      },
      {
        id: 'runs.get',
        text: 'GET /runs/{id} 200',
        test: 'runs.spec.ts › a run › is accepted, executed and merged, and says so in every field',
      },
      {
        id: 'runs.get.404',
        text: 'GET /runs/{id} 404',
        test: 'runs.spec.ts › requests that cannot be › a run that is not there: 404',
      },
      {
        id: 'runs.cancel',
        text: 'POST /runs/{id}/cancel 200',
        test: 'runs.spec.ts › cancel › ends an executing run, leaves no table and answers once',
      },
      {
        id: 'runs.cancel.404',
        text: 'POST /runs/{id}/cancel 404',
        test: 'runs.spec.ts › cancel › of what is not there is 404',
      },
      {
        id: 'runs.cancel.409',
        text: 'POST /runs/{id}/cancel 409 once it has ended',
        test: 'runs.spec.ts › cancel › ends an executing run, leaves no table and answers once',
      },
      {
        id: 'runs.logs',
        text: 'GET /runs/{id}/logs 200 JSON',
        test: 'runs.spec.ts › logs › are JSON with the status of the run',
      },
      {
        id: 'runs.logs.404',
        text: 'GET /runs/{id}/logs 404',
        test: 'runs.spec.ts › requests that cannot be › a run that is not there: 404',
      },
      {
        id: 'runs.no-runner.off',
        text: 'Without a runner a run stays pending',
        test: 'unavailable.spec.ts › a part that is switched off › a run without a runner is taken and stays pending',
      },
      {
        id: 'runs.no-runner.away',
        text: 'While the runner does not answer a run stays pending',
        test: 'unavailable.spec.ts › a part that does not answer › a run without a runner is taken and stays pending',
      },
    ],
  },
  {
    title: 'Run states',
    rows: [
      {
        id: 'run.pending',
        text: 'A requested run is pending, then running, then ends',
        test: 'runs.spec.ts › a run › is accepted, executed and merged, and says so in every field',
      },
      {
        id: 'run.cancel.pending',
        text: 'A pending run is cancelled',
        test: 'runs.spec.ts › cancel › ends a pending run before it starts, and the one it waited for goes on',
      },
      {
        id: 'run.cancel.running',
        text: 'A running run is cancelled',
        test: 'runs.spec.ts › cancel › ends an executing run, leaves no table and answers once',
      },
      {
        id: 'run.stuck',
        text: 'A run that runs for too long is failed by the reaper and says so',
        test: 'retention.spec.ts › a service of our own › a run that has been running for too long is failed, and says so',
      },
      {
        id: 'run.gate.error',
        text: 'A failing error test fails the run and drops its branch',
        test: 'journeys/gate.spec.ts › a failing gate leaves the table as it was, and a reader never sees the bad rows',
      },
      {
        id: 'run.gate.warn',
        text: 'Failing warnings let the run succeed',
        test: 'runs.spec.ts › a run › whose error test fails leaves the table as it was; a warning does not',
      },
    ],
  },
  {
    title: 'Log events',
    rows: [
      {
        id: 'sse.log',
        text: 'log events carry timestamp, level and message',
        test: 'runs.spec.ts › logs › of a finished run come as events at once, the status last, and resume after Last-Event-ID',
      },
      {
        id: 'sse.status',
        text: 'status comes last, with rows and duration, then the stream closes',
        test: 'runs.spec.ts › logs › of a finished run come as events at once, the status last, and resume after Last-Event-ID',
      },
      {
        id: 'sse.active',
        text: 'The stream of an active run stays open until it ends',
        test: 'runs.spec.ts › logs › of an active run arrive while it runs',
      },
      {
        id: 'sse.error',
        text: 'error event when a stream fails',
        test: 'faults/healing.spec.ts › a stream of log lines that cannot be read any more says so in an error event, and ends',
      },
    ],
  },
  {
    title: 'Query and schema',
    rows: [
      {
        id: 'query',
        text: 'POST /query 200 with columns, rows, total_rows',
        test: 'query.spec.ts › a query answers what a run has just merged, by both names of the table',
      },
      {
        id: 'query.read-only',
        text: 'DDL and DML are rejected',
        test: 'query.spec.ts › what does not only read is refused',
      },
      {
        id: 'query.400',
        text: 'POST /query 400: no sql, syntax, bad table',
        test: 'query.spec.ts › a bad request is 400 and says what to mend',
      },
      {
        id: 'query.500',
        text: 'POST /query 500 INTERNAL where it is not configured',
        test: 'unavailable.spec.ts › a part that is switched off › a query is 500 without a query service',
      },
      {
        id: 'query.503',
        text: 'POST /query 503 UNAVAILABLE where it does not answer',
        test: 'unavailable.spec.ts › a part that does not answer › a query is 503 without a query service',
      },
      {
        id: 'schema',
        text: 'GET /schema 200 across all namespaces',
        test: 'query.spec.ts › the schema has the columns of tables in every namespace',
      },
      {
        id: 'schema.500',
        text: 'GET /schema 500',
        test: 'unavailable.spec.ts › a part that is switched off › the schema is 500 without a query service',
      },
      {
        id: 'schema.503',
        text: 'GET /schema 503',
        test: 'unavailable.spec.ts › a part that does not answer › the schema is 503 without a query service',
      },
    ],
  },
  {
    title: 'Tables',
    rows: [
      {
        id: 'tables.list',
        text: 'GET /tables 200 by namespace and layer',
        test: 'tables.spec.ts › a table is listed with its size, and shown with its columns',
      },
      {
        id: 'tables.list.500',
        text: 'GET /tables 500',
        test: 'unavailable.spec.ts › a part that is switched off › the list of tables is 500 without a query service',
      },
      {
        id: 'tables.list.503',
        text: 'GET /tables 503',
        test: 'unavailable.spec.ts › a part that does not answer › the list of tables is 503 without a query service',
      },
      {
        id: 'tables.get',
        text: 'GET /tables/{ns}/{layer}/{name} 200 with columns',
        test: 'tables.spec.ts › a table is listed with its size, and shown with its columns',
      },
      {
        id: 'tables.get.404',
        text: 'GET /tables/{ns}/{layer}/{name} 404',
        test: 'tables.spec.ts › a table that is not there is 404',
      },
      {
        id: 'tables.get.500',
        text: 'GET /tables/{ns}/{layer}/{name} 500',
        test: 'unavailable.spec.ts › a part that is switched off › a table is 500 without a query service',
      },
      {
        id: 'tables.get.503',
        text: 'GET /tables/{ns}/{layer}/{name} 503',
        test: 'unavailable.spec.ts › a part that does not answer › a table is 503 without a query service',
      },
      {
        id: 'tables.preview',
        text: 'GET .../preview 200',
        test: 'tables.spec.ts › a preview has 50 rows unless told otherwise',
      },
      {
        id: 'tables.preview.404',
        text: 'GET .../preview 404',
        test: 'tables.spec.ts › a table that is not there is 404',
      },
      {
        id: 'tables.preview.500',
        text: 'GET .../preview 500',
        test: 'unavailable.spec.ts › a part that is switched off › the preview of a table is 500 without a query service',
      },
      {
        id: 'tables.preview.503',
        text: 'GET .../preview 503',
        test: 'unavailable.spec.ts › a part that does not answer › the preview of a table is 503 without a query service',
      },
      {
        id: 'tables.metadata',
        text: 'PUT .../metadata 200, partial; merged with .meta.yaml; survives the table',
        test: 'tables.spec.ts › what people say of a table wins over its file, and outlives the table',
      },
      {
        id: 'tables.metadata.400',
        text: 'PUT .../metadata 400',
        test: 'tables.spec.ts › a bad field of metadata is 400 naming it',
      },
      {
        id: 'tables.metadata.404',
        text: 'PUT .../metadata 404',
        test: 'tables.spec.ts › a table that is not there is 404',
      },
      {
        id: 'tables.metadata.503',
        text: 'PUT .../metadata 503 without a metadata store',
        test: 'unavailable.spec.ts › a part that is switched off › describing a table is 503 without a metadata store',
      },
    ],
  },
  {
    title: 'Files',
    rows: [
      {
        id: 'files.list',
        text: 'GET /files 200 by prefix, namespace, exclude',
        test: 'files.spec.ts › list › has the files under the prefix, without excluded segments, of one namespace',
      },
      {
        id: 'files.list.prefix',
        text: 'prefix is required and starts with a namespace',
        test: 'files.spec.ts › list › needs a prefix that starts with a namespace',
      },
      {
        id: 'files.types',
        text: 'The type of a file follows from its path',
        test: 'files.spec.ts › list › knows the type of a file by its path',
      },
      {
        id: 'files.read',
        text: 'GET /files/{path} 200',
        test: 'files.spec.ts › a file is written, read, listed and deleted, and each write is a version',
      },
      {
        id: 'files.read.404',
        text: 'GET /files/{path} 404',
        test: 'files.spec.ts › a file is written, read, listed and deleted, and each write is a version',
      },
      {
        id: 'files.write',
        text: 'PUT /files/{path} 200 written',
        test: 'files.spec.ts › a file is written, read, listed and deleted, and each write is a version',
      },
      {
        id: 'files.write.400',
        text: 'PUT /files/{path} 400 without content',
        test: 'files.spec.ts › a write needs content that is text',
      },
      {
        id: 'files.delete',
        text: 'DELETE /files/{path} 204',
        test: 'files.spec.ts › a file is written, read, listed and deleted, and each write is a version',
      },
      {
        id: 'files.upload',
        text: 'POST /files/upload 201',
        test: 'files.spec.ts › upload › stores the file under the path, or under its own name in a folder',
      },
      {
        id: 'files.upload.400',
        text: 'POST /files/upload 400: no path, no file, bad path',
        test: 'files.spec.ts › upload › without a path, without a file, or with a bad path is 400 naming it',
      },
      {
        id: 'files.upload.413',
        text: 'POST /files/upload 413',
        test: 'files.spec.ts › upload › may have 32 MB, and not one byte more',
      },
      {
        id: 'files.500',
        text: 'GET, PUT, DELETE /files/{path} 500 when storage fails',
        test: 'object-store.spec.ts › a file is 500 INTERNAL while the store fails, to read, write and delete, and all right afterwards',
      },
      {
        id: 'files.path.empty',
        text: 'A path is not empty',
        test: 'files.spec.ts › a bad path is 400 whatever is done with it',
      },
      {
        id: 'files.path.dots',
        text: 'A path has no .., however it is encoded',
        test: 'files.spec.ts › a bad path is 400 whatever is done with it',
      },
      {
        id: 'files.path.sent',
        text: 'An address is judged as it was sent, before any server resolves it',
        test: 'files.spec.ts › an address is judged as it was sent: what a server would resolve is 400',
      },
      {
        id: 'files.path.resolved',
        text: 'What is resolved to the address of a file is none',
        test: 'files.spec.ts › an address that servers resolve to one of a file is none',
      },
      {
        id: 'files.path.segments',
        text: 'A path has at most 64 segments',
        test: 'files.spec.ts › a path has at most 64 segments',
      },
      {
        id: 'files.path.relative',
        text: 'A path has no leading slash',
        test: 'files.spec.ts › a bad path is 400 whatever is done with it',
      },
      {
        id: 'files.path.nul',
        text: 'A path has no NUL byte',
        test: 'files.spec.ts › a bad path is 400 whatever is done with it',
      },
      {
        id: 'files.path.backslash',
        text: 'A path has no backslash',
        test: 'files.spec.ts › a bad path is 400 whatever is done with it',
      },
      {
        id: 'files.path.namespace',
        text: 'The first segment is a valid namespace',
        test: 'files.spec.ts › a bad path is 400 whatever is done with it',
      },
    ],
  },
  {
    title: 'Landing zones',
    rows: [
      {
        id: 'zones.list',
        text: 'GET /landing-zones 200 with file_count and total_bytes',
        test: 'landing-zones.spec.ts › zones are listed with their counts, all or those of a namespace',
      },
      {
        id: 'zones.create',
        text: 'POST /landing-zones 201',
        test: 'landing-zones.spec.ts › a zone is created, found, changed and deleted',
      },
      {
        id: 'zones.create.400',
        text: 'POST /landing-zones 400',
        test: 'landing-zones.spec.ts › create with a bad field is 400 naming it, of a taken name 409',
      },
      {
        id: 'zones.create.409',
        text: 'POST /landing-zones 409',
        test: 'landing-zones.spec.ts › create with a bad field is 400 naming it, of a taken name 409',
      },
      {
        id: 'zones.get',
        text: 'GET /landing-zones/{ns}/{name} 200',
        test: 'landing-zones.spec.ts › a zone is created, found, changed and deleted',
      },
      {
        id: 'zones.get.404',
        text: 'GET /landing-zones/{ns}/{name} 404',
        test: 'landing-zones.spec.ts › what cannot be the address of a zone or a file is 404',
      },
      {
        id: 'zones.update',
        text: 'PUT /landing-zones/{ns}/{name} 200; owner and expected_schema are returned',
        test: 'landing-zones.spec.ts › a zone is created, found, changed and deleted',
      },
      {
        id: 'zones.update.400',
        text: 'PUT /landing-zones/{ns}/{name} 400',
        test: 'landing-zones.spec.ts › update with a bad field is 400 naming it',
      },
      {
        id: 'zones.update.404',
        text: 'PUT /landing-zones/{ns}/{name} 404',
        test: 'landing-zones.spec.ts › what cannot be the address of a zone or a file is 404',
      },
      {
        id: 'zones.delete',
        text: 'DELETE /landing-zones/{ns}/{name} 204 with all its files',
        test: 'landing-zones.spec.ts › deleting a zone removes everything under it and nothing beside it',
      },
      {
        id: 'zones.delete.404',
        text: 'DELETE /landing-zones/{ns}/{name} 404',
        test: 'landing-zones.spec.ts › what cannot be the address of a zone or a file is 404',
      },
      {
        id: 'zones.files',
        text: 'GET .../files 200',
        test: 'landing-zones.spec.ts › files are listed newest first and paged',
      },
      {
        id: 'zones.files.404',
        text: 'GET .../files 404',
        test: 'landing-zones.spec.ts › what cannot be the address of a zone or a file is 404',
      },
      {
        id: 'zones.upload',
        text: 'POST .../files 201, the name prefixed with the UTC time',
        test: 'landing-zones.spec.ts › a file is uploaded, found, listed and deleted',
      },
      {
        id: 'zones.upload.400',
        text: 'POST .../files 400 without a file',
        test: 'landing-zones.spec.ts › an upload without a file or with a name that cannot be one is 400 and leaves nothing',
      },
      {
        id: 'zones.upload.404',
        text: 'POST .../files 404',
        test: 'landing-zones.spec.ts › what cannot be the address of a zone or a file is 404',
      },
      {
        id: 'zones.upload.413',
        text: 'POST .../files 413',
        test: 'landing-zones.spec.ts › an upload may have 32 MB, and not one byte more',
      },
      {
        id: 'zones.file',
        text: 'GET .../files/{id} 200',
        test: 'landing-zones.spec.ts › a file is uploaded, found, listed and deleted',
      },
      {
        id: 'zones.file.404',
        text: 'GET .../files/{id} 404',
        test: 'landing-zones.spec.ts › what cannot be the address of a zone or a file is 404',
      },
      {
        id: 'zones.file.delete',
        text: 'DELETE .../files/{id} 204, object and record',
        test: 'landing-zones.spec.ts › a file is uploaded, found, listed and deleted',
      },
      {
        id: 'zones.file.delete.404',
        text: 'DELETE .../files/{id} 404',
        test: 'landing-zones.spec.ts › what cannot be the address of a zone or a file is 404',
      },
      {
        id: 'zones.samples',
        text: 'GET .../samples 200',
        test: 'landing-zones.spec.ts › samples › are uploaded under their own names, listed, replaced and deleted',
      },
      {
        id: 'zones.samples.404',
        text: 'GET .../samples 404',
        test: 'landing-zones.spec.ts › samples › of no zone are 404, and with a name or form that cannot be 400',
      },
      {
        id: 'zones.sample.upload',
        text: 'POST .../samples 201 under its own name; the same name overwrites',
        test: 'landing-zones.spec.ts › samples › are uploaded under their own names, listed, replaced and deleted',
      },
      {
        id: 'zones.sample.upload.400',
        text: 'POST .../samples 400',
        test: 'landing-zones.spec.ts › samples › of no zone are 404, and with a name or form that cannot be 400',
      },
      {
        id: 'zones.sample.upload.404',
        text: 'POST .../samples 404',
        test: 'landing-zones.spec.ts › samples › of no zone are 404, and with a name or form that cannot be 400',
      },
      {
        id: 'zones.sample.upload.413',
        text: 'POST .../samples 413',
        test: 'landing-zones.spec.ts › samples › may have 32 MB, and not one byte more',
      },
      {
        id: 'zones.sample.delete',
        text: 'DELETE .../samples/{filename} 204',
        test: 'landing-zones.spec.ts › samples › are uploaded under their own names, listed, replaced and deleted',
      },
      {
        id: 'zones.sample.delete.404',
        text: 'DELETE .../samples/{filename} 404',
        test: 'landing-zones.spec.ts › samples › of no zone are 404, and with a name or form that cannot be 400',
      },
      {
        id: 'zones.lifecycle',
        text: 'GET .../lifecycle 200',
        test: 'landing-zones.spec.ts › the lifecycle of a zone is read, and changed field by field',
      },
      {
        id: 'zones.lifecycle.404',
        text: 'GET .../lifecycle 404',
        test: 'landing-zones.spec.ts › what cannot be the address of a zone or a file is 404',
      },
      {
        id: 'zones.lifecycle.put',
        text: 'PUT .../lifecycle 204',
        test: 'landing-zones.spec.ts › the lifecycle of a zone is read, and changed field by field',
      },
      {
        id: 'zones.lifecycle.put.400',
        text: 'PUT .../lifecycle 400',
        test: 'landing-zones.spec.ts › a lifecycle that cannot be is 400 naming the field, and changes nothing',
      },
      {
        id: 'zones.lifecycle.put.404',
        text: 'PUT .../lifecycle 404',
        test: 'landing-zones.spec.ts › what cannot be the address of a zone or a file is 404',
      },
      {
        id: 'zones.archive',
        text: 'Files are archived after a success, and purged by age where the zone says so',
        test: 'retention.spec.ts › a service of our own › archived landing files move to _processed, and go where the zone says so',
      },
    ],
  },
  {
    title: 'Triggers',
    rows: [
      {
        id: 'triggers.list',
        text: 'GET .../triggers 200',
        test: 'triggers.spec.ts › every type is listed with its configuration, page by page',
      },
      {
        id: 'triggers.list.404',
        text: 'GET .../triggers 404',
        test: 'triggers.spec.ts › what is wrong is refused, naming the field, on creating and on updating',
      },
      {
        id: 'triggers.create',
        text: 'POST .../triggers 201',
        test: 'triggers.spec.ts › a trigger is created, found, listed, changed and deleted',
      },
      {
        id: 'triggers.create.400',
        text: 'POST .../triggers 400: type, config, cron, glob',
        test: 'triggers.spec.ts › what is wrong is refused, naming the field, on creating and on updating',
      },
      {
        id: 'triggers.create.404',
        text: 'POST .../triggers 404: pipeline, zone or upstream',
        test: 'triggers.spec.ts › what is wrong is refused, naming the field, on creating and on updating',
      },
      {
        id: 'triggers.get',
        text: 'GET .../triggers/{id} 200',
        test: 'triggers.spec.ts › a trigger is created, found, listed, changed and deleted',
      },
      {
        id: 'triggers.get.404',
        text: 'GET .../triggers/{id} 404',
        test: 'triggers.spec.ts › what is wrong is refused, naming the field, on creating and on updating',
      },
      {
        id: 'triggers.update',
        text: 'PUT .../triggers/{id} 200, partial',
        test: 'triggers.spec.ts › a trigger is created, found, listed, changed and deleted',
      },
      {
        id: 'triggers.update.400',
        text: 'PUT .../triggers/{id} 400',
        test: 'triggers.spec.ts › what is wrong is refused, naming the field, on creating and on updating',
      },
      {
        id: 'triggers.update.404',
        text: 'PUT .../triggers/{id} 404',
        test: 'triggers.spec.ts › what is wrong is refused, naming the field, on creating and on updating',
      },
      {
        id: 'triggers.delete',
        text: 'DELETE .../triggers/{id} 204, then 404',
        test: 'triggers.spec.ts › a trigger is created, found, listed, changed and deleted',
      },
      {
        id: 'triggers.type.upload',
        text: 'landing_zone_upload fires on an upload',
        test: 'triggers.spec.ts › an upload starts a run that reads the file',
      },
      {
        id: 'triggers.type.pattern',
        text: 'file_pattern fires on names that fit',
        test: 'triggers.spec.ts › a pattern hears the files whose original name fits, however many arrive at once',
      },
      {
        id: 'triggers.type.success',
        text: 'pipeline_success fires on success only',
        test: 'triggers.spec.ts › a success starts the next pipeline, and that one the next; a failure starts nothing',
      },
      {
        id: 'triggers.type.webhook',
        text: 'webhook fires on a call with its token',
        test: 'webhooks.spec.ts › a webhook is called with its token, in either header and with any body',
      },
      {
        id: 'triggers.type.cron',
        text: 'cron fires when due',
        test: 'clock/due.spec.ts › what the clock starts is started when it is due, and not before',
      },
      {
        id: 'triggers.type.cron_dependency',
        text: 'cron_dependency fires when due and all have succeeded since',
        test: 'clock/due.spec.ts › what the clock starts is started when it is due, and not before',
      },
      {
        id: 'triggers.cooldown',
        text: 'Within the cooldown firings are ignored',
        test: 'triggers.spec.ts › within the cooldown events are ignored, and after it they count again',
      },
      {
        id: 'triggers.disabled',
        text: 'A disabled trigger starts nothing',
        test: 'triggers.spec.ts › a trigger that is disabled, or whose pipeline was never published, starts nothing',
      },
    ],
  },
  {
    title: 'Schedules',
    rows: [
      {
        id: 'schedules.list',
        text: 'GET /schedules 200',
        test: 'schedules.spec.ts › schedules are listed by the page, with an exact number',
      },
      {
        id: 'schedules.create',
        text: 'POST /schedules 201 without last_run_at and next_run_at',
        test: 'schedules.spec.ts › a schedule is created, shown, changed and deleted',
      },
      {
        id: 'schedules.create.400',
        text: 'POST /schedules 400',
        test: 'schedules.spec.ts › no cron: 400 that names the field, on create and on update',
      },
      {
        id: 'schedules.create.404',
        text: 'POST /schedules 404',
        test: 'schedules.spec.ts › what is not there is 404',
      },
      {
        id: 'schedules.get',
        text: 'GET /schedules/{id} 200',
        test: 'schedules.spec.ts › a schedule is created, shown, changed and deleted',
      },
      {
        id: 'schedules.get.404',
        text: 'GET /schedules/{id} 404',
        test: 'schedules.spec.ts › what is not there is 404',
      },
      {
        id: 'schedules.update',
        text: 'PUT /schedules/{id} 200',
        test: 'schedules.spec.ts › a schedule is created, shown, changed and deleted',
      },
      {
        id: 'schedules.update.400',
        text: 'PUT /schedules/{id} 400',
        test: 'schedules.spec.ts › an hour there is not: 400 that names the field, on create and on update',
      },
      {
        id: 'schedules.update.404',
        text: 'PUT /schedules/{id} 404',
        test: 'schedules.spec.ts › a schedule is created, shown, changed and deleted',
      },
      {
        id: 'schedules.delete',
        text: 'DELETE /schedules/{id} 204, then 404',
        test: 'schedules.spec.ts › a schedule is created, shown, changed and deleted',
      },
      {
        id: 'schedules.due',
        text: 'The first look only reckons; then a run is made when due; a busy pipeline is passed over',
        test: 'clock/due.spec.ts › what the clock starts is started when it is due, and not before',
      },
      {
        id: 'schedules.catch-up',
        text: 'After downtime one run catches up',
        test: 'faults/leadership.spec.ts › the service is paused between two transactions',
      },
      {
        id: 'schedules.cron',
        text: 'Five fields; no seconds, no nicknames',
        test: 'schedules.spec.ts › seconds: 400 that names the field, on create and on update',
      },
    ],
  },
  {
    title: 'Quality tests',
    rows: [
      {
        id: 'tests.list',
        text: 'GET .../tests 200',
        test: 'quality-tests.spec.ts › a test is created, listed, published and deleted',
      },
      {
        id: 'tests.list.404',
        text: 'GET .../tests 404',
        test: 'quality-tests.spec.ts › of a pipeline that does not exist everything is 404',
      },
      {
        id: 'tests.create',
        text: 'POST .../tests 201 with path',
        test: 'quality-tests.spec.ts › a test is created, listed, published and deleted',
      },
      {
        id: 'tests.create.400',
        text: 'POST .../tests 400',
        test: 'quality-tests.spec.ts › create with a bad field is 400 naming it and writes nothing',
      },
      {
        id: 'tests.create.404',
        text: 'POST .../tests 404',
        test: 'quality-tests.spec.ts › of a pipeline that does not exist everything is 404',
      },
      {
        id: 'tests.create.409',
        text: 'POST .../tests 409',
        test: 'quality-tests.spec.ts › a test is created, listed, published and deleted',
      },
      {
        id: 'tests.delete',
        text: 'DELETE .../tests/{testName} 204, then 404',
        test: 'quality-tests.spec.ts › a test is created, listed, published and deleted',
      },
      {
        id: 'tests.run',
        text: 'POST .../tests/run 200 against main',
        test: 'quality-tests.spec.ts › running all evaluates the tests of the draft against what readers see',
      },
      {
        id: 'tests.run.404',
        text: 'POST .../tests/run 404',
        test: 'quality-tests.spec.ts › of a pipeline that does not exist everything is 404',
      },
      {
        id: 'tests.run.503.off',
        text: 'POST .../tests/run 503 where there is no runner',
        test: 'unavailable.spec.ts › a part that is switched off › running quality tests is 503 without a runner',
      },
      {
        id: 'tests.run.503.away',
        text: 'POST .../tests/run 503 where the runner does not answer',
        test: 'unavailable.spec.ts › a part that does not answer › running quality tests is 503 without a runner',
      },
      {
        id: 'tests.header',
        text: 'severity, description, tags and remediation come from the file',
        test: 'quality-tests.spec.ts › a test written as a file says the rest about itself in its header',
      },
    ],
  },
  {
    title: 'Namespaces',
    rows: [
      {
        id: 'namespaces.list',
        text: 'GET /namespaces 200',
        test: 'namespaces.spec.ts › a namespace is created, listed, described and deleted',
      },
      {
        id: 'namespaces.create',
        text: 'POST /namespaces 201',
        test: 'namespaces.spec.ts › a namespace is created, listed, described and deleted',
      },
      {
        id: 'namespaces.create.400',
        text: 'POST /namespaces 400',
        test: 'namespaces.spec.ts › names that break the rule are 400, naming the field',
      },
      {
        id: 'namespaces.create.409',
        text: 'POST /namespaces 409',
        test: 'namespaces.spec.ts › a taken name is 409 ALREADY_EXISTS',
      },
      {
        id: 'namespaces.update',
        text: 'PUT /namespaces/{name} 204',
        test: 'namespaces.spec.ts › a namespace is created, listed, described and deleted',
      },
      {
        id: 'namespaces.update.400',
        text: 'PUT /namespaces/{name} 400 without a description',
        test: 'audit.spec.ts › every write is in the log once it is answered, whatever came of it, and no read',
      },
      {
        id: 'namespaces.update.404',
        text: 'PUT /namespaces/{name} 404',
        test: 'namespaces.spec.ts › a namespace is created, listed, described and deleted',
      },
      {
        id: 'namespaces.delete',
        text: 'DELETE /namespaces/{name} 204; what it contains stays',
        test: 'namespaces.spec.ts › what a deleted namespace contains stays and keeps working',
      },
      {
        id: 'namespaces.delete.403',
        text: 'DELETE /namespaces/default 403',
        test: 'namespaces.spec.ts › default cannot be deleted',
      },
      {
        id: 'namespaces.delete.404',
        text: 'DELETE /namespaces/{name} 404',
        test: 'audit.spec.ts › every write is in the log once it is answered, whatever came of it, and no read',
      },
    ],
  },
  {
    title: 'Retention',
    rows: [
      {
        id: 'retention.config',
        text: 'GET /admin/retention/config 200 with the defaults',
        test: 'retention.spec.ts › a service of our own › has the settings of the specification, changes what is given, and answers both readings',
      },
      {
        id: 'retention.config.put',
        text: 'PUT /admin/retention/config 200; only given fields change',
        test: 'retention.spec.ts › a service of our own › has the settings of the specification, changes what is given, and answers both readings',
      },
      {
        id: 'retention.config.put.400',
        text: 'PUT /admin/retention/config 400',
        test: 'retention.spec.ts › settings that cannot be are refused by name',
      },
      {
        id: 'retention.status',
        text: 'GET /admin/retention/status 200',
        test: 'retention.spec.ts › the status of the last tick can be read, and a tick be asked for',
      },
      {
        id: 'retention.run',
        text: 'POST /admin/retention/run 202, when it has finished',
        test: 'retention.spec.ts › the status of the last tick can be read, and a tick be asked for',
      },
      {
        id: 'retention.run.503',
        text: 'POST /admin/retention/run 503 without a reaper',
        test: 'unavailable.spec.ts › a part that is switched off › asking the reaper to run is 503 without a reaper',
      },
      {
        id: 'retention.pipeline',
        text: 'GET .../retention 200 with system, overrides, effective',
        test: 'retention.spec.ts › a pipeline’s overrides are put on top of the settings, replaced as a whole, and cleared',
      },
      {
        id: 'retention.pipeline.404',
        text: 'GET .../retention 404',
        test: 'retention.spec.ts › a pipeline’s overrides are put on top of the settings, replaced as a whole, and cleared',
      },
      {
        id: 'retention.pipeline.put',
        text: 'PUT .../retention 204; {} clears',
        test: 'retention.spec.ts › a pipeline’s overrides are put on top of the settings, replaced as a whole, and cleared',
      },
      {
        id: 'retention.pipeline.put.400',
        text: 'PUT .../retention 400',
        test: 'retention.spec.ts › a pipeline’s overrides are put on top of the settings, replaced as a whole, and cleared',
      },
      {
        id: 'retention.pipeline.put.404',
        text: 'PUT .../retention 404',
        test: 'retention.spec.ts › a pipeline’s overrides are put on top of the settings, replaced as a whole, and cleared',
      },
      {
        id: 'reaper.runs',
        text: 'Runs beyond the count go, with their logs',
        test: 'retention.spec.ts › a service of our own › runs beyond the count go with their logs; the latest success stays, and the table too',
      },
      {
        id: 'reaper.stuck',
        text: 'Stuck runs are failed',
        test: 'retention.spec.ts › a service of our own › a run that has been running for too long is failed, and says so',
      },
      {
        id: 'reaper.pipelines',
        text: 'Deleted pipelines are purged with their files',
        test: 'retention.spec.ts › a service of our own › a deleted pipeline goes for good, and one that has its name since loses nothing',
      },
      {
        id: 'reaper.branches',
        text: 'Orphan branches are deleted',
        test: 'faults/reaper.spec.ts › branches whose run is gone are deleted when they are old enough, and counted',
      },
      {
        id: 'reaper.landing',
        text: 'Expired archived files are deleted',
        test: 'retention.spec.ts › a service of our own › archived landing files move to _processed, and go where the zone says so',
      },
      {
        id: 'reaper.audit',
        text: 'Audit entries go by age',
        test: 'retention.spec.ts › a service of our own › audit entries go by age',
      },
    ],
  },
  {
    title: 'Lineage',
    rows: [
      {
        id: 'lineage',
        text: 'GET /lineage 200 with nodes and edges, one namespace or all',
        test: 'lineage.spec.ts › the lineage of runs: latest run, quality summary, table stats and landing files',
      },
      {
        id: 'lineage.references',
        text: 'Literal ref() and landing_zone() calls make edges, across namespaces too',
        test: 'lineage.spec.ts › lineage: a three-part ref crosses namespaces even when the graph is filtered to one',
      },
      {
        id: 'lineage.orphans',
        text: 'Orphan tables and zones appear unconnected',
        test: 'lineage.spec.ts › lineage: orphan tables and orphan landing zones are disconnected nodes',
      },
    ],
  },
  {
    title: 'Webhooks',
    rows: [
      {
        id: 'webhooks',
        text: 'POST /webhooks 201 with run_id, by either header',
        test: 'webhooks.spec.ts › a webhook is called with its token, in either header and with any body',
      },
      {
        id: 'webhooks.400',
        text: 'POST /webhooks 400 without a token',
        test: 'webhooks.spec.ts › a call without a token is 400, one with a token that opens nothing 404',
      },
      {
        id: 'webhooks.404',
        text: 'POST /webhooks 404 for an unknown token',
        test: 'webhooks.spec.ts › a call without a token is 400, one with a token that opens nothing 404',
      },
      {
        id: 'webhooks.429',
        text: 'POST /webhooks 429 during the cooldown, with Retry-After',
        test: 'webhooks.spec.ts › of 100 calls at one instant with a cooldown one runs, and 99 are told when to come again',
      },
    ],
  },
  {
    title: 'Sharing',
    rows: [
      {
        id: 'sharing.grant.501',
        text: 'POST /sharing 501 in the community edition',
        test: 'sharing.spec.ts › granting access is not available in the community edition',
      },
      {
        id: 'sharing.list.501',
        text: 'GET /sharing 501 in the community edition',
        test: 'sharing.spec.ts › listing grants is not available in the community edition',
      },
      {
        id: 'sharing.revoke.501',
        text: 'DELETE /sharing/{id} 501 in the community edition',
        test: 'sharing.spec.ts › revoking access is not available in the community edition',
      },
      {
        id: 'sharing.transfer.501',
        text: 'POST /sharing/transfer 501 in the community edition',
        test: 'sharing.spec.ts › transferring a pipeline is not available in the community edition',
      },
      {
        id: 'sharing.grant',
        text: 'POST /sharing 201, 400, 401, 403, 404 (Pro)',
        test: 'sharing-pro.spec.ts › access is granted by who has admin, and refused as specified',
      },
      {
        id: 'sharing.list',
        text: 'GET /sharing 200, 400, 401 (Pro)',
        test: 'sharing-pro.spec.ts › grants are listed and revoked as specified',
      },
      {
        id: 'sharing.revoke',
        text: 'DELETE /sharing/{id} 204, 401, 403, 404 (Pro)',
        test: 'sharing-pro.spec.ts › grants are listed and revoked as specified',
      },
      {
        id: 'sharing.transfer',
        text: 'POST /sharing/transfer 200, 400, 401, 403, 404 (Pro)',
        test: 'sharing-pro.spec.ts › a pipeline is handed over by its owner alone, who keeps nothing, while other grants stay',
      },
    ],
  },
  {
    title: 'Audit',
    rows: [
      {
        id: 'audit.list',
        text: 'GET /audit 200: a bare array, newest first, paged',
        test: 'audit.spec.ts › the log is a bare array, newest first, with pages',
      },
      {
        id: 'audit.404',
        text: 'GET /audit 404 where it is not configured',
        test: 'unavailable.spec.ts › a part that is switched off › the audit log is 404 where nothing is audited',
      },
      {
        id: 'audit.writes',
        text: 'POST, PUT and DELETE are recorded, GET is not',
        test: 'audit.spec.ts › every write is in the log once it is answered, whatever came of it, and no read',
      },
      {
        id: 'audit.ip',
        text: 'The address is what a trusted proxy says',
        test: 'audit.spec.ts › the address is what a proxy on this machine says',
      },
      {
        id: 'audit.ip.elsewhere',
        text: 'It is told of a path with .. too',
        test: 'audit.spec.ts › who sends a path that leads elsewhere is told too',
      },
    ],
  },
  {
    title: 'Health, metrics, features',
    rows: [
      {
        id: 'health',
        text: 'GET /health 200',
        test: 'health.spec.ts › the process says that it runs, and which build it is',
      },
      {
        id: 'health.live',
        text: 'GET /health/live 200 with the build',
        test: 'health.spec.ts › the process says that it runs, and which build it is',
      },
      {
        id: 'health.ready',
        text: 'GET /health/ready 200',
        test: 'health.spec.ts › it is ready: database, objects, runner and query answer',
      },
      {
        id: 'health.ready.503',
        text: 'GET /health/ready 503 naming what fails',
        test: 'unavailable.spec.ts › a part that does not answer › readiness is 503 and names what does not answer',
      },
      {
        id: 'metrics',
        text: 'GET /metrics 200 with every named metric',
        test: 'health.spec.ts › metrics are text under the names of the specification',
      },
      {
        id: 'metrics.runs',
        text: 'Ended runs are counted once by status',
        test: 'metrics.spec.ts › every run is counted once by how it ended, whoever ended it',
      },
      {
        id: 'features',
        text: 'GET /features 200',
        test: 'health.spec.ts › features are those of the open community edition',
      },
    ],
  },
  {
    title: 'Authentication',
    rows: [
      {
        id: 'auth.none',
        text: 'Without configuration everything is open',
        test: 'health.spec.ts › features are those of the open community edition',
      },
      {
        id: 'auth.key',
        text: 'With a key, X-Api-Key opens the API',
        test: 'auth.spec.ts › the key opens the API',
      },
      {
        id: 'auth.401',
        text: 'Missing or wrong credentials are 401 AUTHENTICATION',
        test: 'auth.spec.ts › without it every address of the API is 401, existing or not',
      },
      {
        id: 'auth.open',
        text: 'Health and metrics need none',
        test: 'auth.spec.ts › health, metrics and the Swagger page need no key; preflights neither',
      },
      {
        id: 'auth.webhooks',
        text: 'Webhooks bypass it and take their token',
        test: 'auth.spec.ts › webhooks are not asked for the key',
      },
      {
        id: 'auth.features',
        text: 'Features go through it',
        test: 'auth.spec.ts › without it every address of the API is 401, existing or not',
      },
      {
        id: 'auth.token.shown-once',
        text: 'A webhook token is shown once; its hash is stored',
        test: 'webhooks.spec.ts › the token is shown once, and nothing that is shown later opens anything',
      },
      {
        id: 'auth.bearer',
        text: 'Bearer tokens of an identity provider (Pro)',
        test: 'security/jwt.spec.ts › a token of the provider, and a named key, open the Pro edition, which shows its licence',
      },
    ],
  },
  {
    title: 'Errors',
    rows: [
      {
        id: 'errors.envelope',
        text: 'Every error has code, type and message',
        test: 'swagger.spec.ts › errors of the API are the envelope',
      },
      {
        id: 'errors.404.unknown',
        text: 'Unknown addresses are 404',
        test: 'conventions.spec.ts › an unknown route is 404 in the envelope',
      },
    ],
  },
  {
    title: 'Limits',
    rows: [
      {
        id: 'limit.upload.files',
        text: '32 MB for a file upload, over it 413',
        test: 'files.spec.ts › upload › may have 32 MB, and not one byte more',
      },
      {
        id: 'limit.upload.landing',
        text: '32 MB for a landing upload',
        test: 'landing-zones.spec.ts › an upload may have 32 MB, and not one byte more',
      },
      {
        id: 'limit.upload.samples',
        text: '32 MB for a sample',
        test: 'landing-zones.spec.ts › samples › may have 32 MB, and not one byte more',
      },
      {
        id: 'limit.sql',
        text: '100 KB of SQL',
        test: 'query.spec.ts › a bad request is 400 and says what to mend',
      },
      {
        id: 'limit.query-time',
        text: 'A query ends after 30 seconds',
        test: 'clock/query.spec.ts › a query ends after 30 seconds, and the next one is answered',
      },
      {
        id: 'limit.query-rows',
        text: '1000 rows of a query unless it says otherwise',
        test: 'query.spec.ts › rows are limited to 1,000 unless the query says otherwise',
      },
      {
        id: 'limit.pipeline-preview',
        text: '100 rows of a preview, at most 1000',
        test: 'preview.spec.ts › the limit of the body comes before that of the query, and both are held',
      },
      {
        id: 'limit.table-preview',
        text: '50 rows of a table preview, at most 1000',
        test: 'tables.spec.ts › a preview has 50 rows unless told otherwise',
      },
      {
        id: 'limit.page',
        text: 'Pages of 50, at most 200',
        test: 'lists.spec.ts › pages of runs are bounded, complete and linked, with an exact total',
      },
      {
        id: 'limit.page.audit',
        text: 'Pages of the audit log too',
        test: 'lists.spec.ts › pages of the audit log are bounded, complete and linked, with an exact total',
      },
      {
        id: 'limit.versions',
        text: '50 versions are kept',
        test: 'limits.spec.ts › the last 50 versions of a pipeline are kept, older ones go',
      },
      {
        id: 'limit.lineage-reads',
        text: '20 reads at a time',
        test: 'object-store.spec.ts › lineage reads at most 20 files at once, and none of them twice',
      },
      {
        id: 'limit.scheduler',
        text: 'Schedules are evaluated every 30 seconds',
        test: 'clock/due.spec.ts › what the clock starts is started when it is due, and not before',
      },
      {
        id: 'limit.sse-poll',
        text: 'New log lines reach an open stream',
        test: 'runs.spec.ts › logs › of an active run arrive while it runs',
      },
      {
        id: 'limit.cooldown',
        text: 'cooldown_seconds holds for webhooks too',
        test: 'webhooks.spec.ts › of 100 calls at one instant with a cooldown one runs, and 99 are told when to come again',
      },
      {
        id: 'limit.namespace',
        text: '3 to 63 characters',
        test: 'namespaces.spec.ts › names that break the rule are 400, naming the field',
      },
      {
        id: 'limit.names',
        text: 'Names as long as the rules allow work throughout',
        test: 'limits.spec.ts › names as long as they may be, and of every character they may have, are taken and work',
      },
      {
        id: 'limit.token',
        text: 'A webhook token has 64 hex characters',
        test: 'webhooks.spec.ts › a webhook is called with its token, in either header and with any body',
      },
      {
        id: 'limit.retention',
        text: 'runs_max_per_pipeline and reaper_interval_minutes are at least 1',
        test: 'retention.spec.ts › settings that cannot be are refused by name',
      },
      {
        id: 'limit.rate',
        text: 'RateLimit headers, and 429 with Retry-After',
        test: 'security/limits.spec.ts › a client that asks too much is told how much it may and when to come again',
      },
    ],
  },
  {
    title: 'Versioning',
    rows: [
      {
        id: 'versioning.v1',
        text: 'The API is below /api/v1; its document tells no other path',
        test: 'swagger.spec.ts › it is OpenAPI 3.1 and describes every endpoint of this service',
      },
    ],
  },
  {
    title: 'Plugins',
    rows: [
      {
        id: 'plugins.health',
        text: 'PluginService: HealthCheck tells status and version of a plugin',
        test: 'plugins.spec.ts › plugins are shown with their status and version, and are among the services that must answer',
      },
      {
        id: 'plugins.authenticate',
        text: 'Auth plugin: Authenticate says who brings a token',
        test: 'plugins.spec.ts › who the plugin knows comes in, and nobody else',
      },
      {
        id: 'plugins.authorize',
        text: 'Auth plugin: Authorize says who may use a route',
        test: 'plugins.spec.ts › a route that the plugin keeps from a user is 403, whatever it is called on',
      },
      {
        id: 'plugins.enforcement',
        text: 'Enforcement plugin: Check and ListVisible say what is used and seen',
        test: 'plugins.spec.ts › what is shared is seen and used as far as it was shared',
      },
      {
        id: 'plugins.sharing',
        text: 'Sharing plugin: CreateGrant, ListGrants, RevokeGrant',
        test: 'plugins.spec.ts › grants are listed, and one that is revoked ends what it gave at once',
      },
      {
        id: 'plugins.transfer',
        text: 'Sharing plugin: TransferOwnership',
        test: 'plugins.spec.ts › a pipeline is handed over to whom the plugin knows, and to nobody else',
      },
      {
        id: 'plugins.away',
        text: 'A plugin that does not answer allows nothing: 503',
        test: 'plugins.spec.ts › without the plugin nobody comes in but keys, and it is seen why',
      },
    ],
  },
]
