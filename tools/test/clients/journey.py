"""One journey with the generated Python client. `tools/test/clients.ts` copies this file beside the generated
`sluice_client`, checks the types of both and runs this file. SLUICE_URL is the address of the service."""

import os
from io import BytesIO

from sluice_client import Client
from sluice_client.api.files import write_file
from sluice_client.api.landing_zones import create_landing_zone, delete_landing_zone, upload_landing_file
from sluice_client.api.pipelines import create_pipeline, delete_pipeline, get_pipeline, publish_pipeline
from sluice_client.api.query import execute_query
from sluice_client.api.runs import create_run, get_run, list_runs
from sluice_client.api.triggers import create_trigger
from sluice_client.models import (
    CreateFilePatternTrigger,
    CreateLandingZone,
    CreatePipeline,
    CreateRun,
    Error,
    ErrorCode,
    ExecuteQuery,
    FilePatternConfig,
    FilePatternTrigger,
    LandingFile,
    LandingZoneCreated,
    Layer,
    Pipeline,
    PipelineCreated,
    Published,
    PublishPipeline,
    QueryResult,
    Run,
    RunAccepted,
    RunList,
    RunSortKey,
    RunStatus,
    SortOrder,
    UploadLandingFile,
    WriteFile,
)
from sluice_client.types import File

NAME = 'client-python'
client = Client(base_url=os.environ['SLUICE_URL'])

created = create_pipeline.sync(client=client, body=CreatePipeline('default', Layer.SILVER, NAME))
assert isinstance(created, PipelineCreated), created
path = f'default/pipelines/silver/{NAME}/pipeline.sql'
assert path in created.files_created
write_file.sync(path, client=client, body=WriteFile("select 1 as id, 'one' as word"))
published = publish_pipeline.sync(
    'default', Layer.SILVER, NAME, client=client, body=PublishPipeline(message='First version')
)
assert isinstance(published, Published) and published.version == 1, published

accepted = create_run.sync(client=client, body=CreateRun('default', Layer.SILVER, NAME))
assert isinstance(accepted, RunAccepted), accepted
# The generator does not support event streams. The underlying HTTP client follows the log to its end instead.
log = client.get_httpx_client().get(
    f'/api/v1/runs/{accepted.run_id}/logs', headers={'accept': 'text/event-stream'}, timeout=60
)
assert 'event: status' in log.text, log.text
run = get_run.sync(accepted.run_id, client=client)
assert isinstance(run, Run) and run.status is RunStatus.SUCCESS and run.layer is Layer.SILVER, run
runs = list_runs.sync(
    client=client, pipeline=NAME, sort=RunSortKey.STARTED_AT, order=SortOrder.ASC, limit=1
)
assert isinstance(runs, RunList) and runs.runs[0].id == accepted.run_id, runs
pipeline = get_pipeline.sync('default', Layer.SILVER, NAME, client=client)
assert isinstance(pipeline, Pipeline) and pipeline.last_run is not None, pipeline

answer = execute_query.sync(client=client, body=ExecuteQuery(sql=f'select word from silver."{NAME}"'))
assert isinstance(answer, QueryResult), answer
assert [row.to_dict() for row in answer.rows] == [{'word': 'one'}]

zone = create_landing_zone.sync(client=client, body=CreateLandingZone('default', NAME))
assert isinstance(zone, LandingZoneCreated), zone
config = FilePatternConfig('default', NAME, '*.json')
trigger = create_trigger.sync(
    'default', Layer.SILVER, NAME, client=client, body=CreateFilePatternTrigger('file_pattern', config)
)
# The trigger's type determines the classes of the trigger and its config.
assert isinstance(trigger, FilePatternTrigger) and trigger.config.pattern == '*.json', trigger
uploaded = upload_landing_file.sync(
    'default',
    NAME,
    client=client,
    body=UploadLandingFile(File(BytesIO(b'id,word\n1,one\n'), 'words.csv', 'text/csv')),
)
assert isinstance(uploaded, LandingFile) and uploaded.size_bytes == 14, uploaded

delete_landing_zone.sync('default', NAME, client=client)
delete_pipeline.sync('default', Layer.SILVER, NAME, client=client)
missing = get_pipeline.sync('default', Layer.SILVER, NAME, client=client)
assert isinstance(missing, Error) and missing.error.code is ErrorCode.NOT_FOUND, missing
