// Statements that try to escape the engine that executes pipelines.
const LOCKED = /disabled (by|through) configuration|Permission Error|is not allowed/
const NO_ACTING = /the function \w+\(\) is not allowed/
const ONLY_SELECT =
  /only a SELECT can be run|one SELECT statement is expected|is not allowed|Permission Error|Secret type 's3' does not exist/

/** Statements by their target. Previews, runs and quality tests refuse each of them with this message. */
export const STATEMENTS: Record<string, [sql: string, message: RegExp][]> = {
  'files of the machine': [
    ["select * from read_text('/etc/passwd')", LOCKED],
    ["select * from read_blob('/proc/self/environ')", LOCKED],
    ["select * from read_csv('/proc/1/environ')", LOCKED],
    ["select * from read_text('/proc/self/cmdline')", LOCKED],
    ["select * from read_text('/proc/self/maps')", LOCKED],
    ["select * from read_json('/etc/os-release')", LOCKED],
    ["select * from read_parquet('/**/_lake/**/*.parquet')", LOCKED],
    ["select * from read_csv('../../../postgres/postgresql.conf')", LOCKED],
    ["select * from glob('/**')", LOCKED],
    ["select * from glob('../**')", LOCKED],
    ["select * from glob('/proc/*/environ')", LOCKED],
    ["from '/etc/passwd'", /does not exist/],
    ["from 'file:///etc/passwd'", /disabled|does not exist|not exist/],
    ["select (select content from read_text('/etc/hostname'))", LOCKED],
    ["with a as (select * from read_csv('/etc/group')) select * from a", LOCKED],
    ["select * from sniff_csv('/etc/passwd')", LOCKED],
    ["select * from parquet_metadata('/tmp/*.parquet')", LOCKED],
    ["select * from query('from read_text(''/etc/passwd'')')", LOCKED],
    ["select * from query_table('/etc/passwd')", /query_table\(\) is not allowed/],
    ["select * from read_text('package.json')", LOCKED],
    ["select * from read_text('./../../../../../../etc/passwd')", LOCKED],
  ],
  'the network': [
    ["select * from read_csv('http://169.254.169.254/latest/meta-data/')", /disabled|not exist|extension/],
    ["from 'https://example.com/a.parquet'", /disabled|not exist|extension/],
    ["select * from read_parquet('s3://bucket/a.parquet')", /disabled|not exist|extension/],
    ["select * from postgres_scan('host=127.0.0.1', 'public', 'run')", /does not exist|disabled|extension/],
    ["select * from sqlite_scan('/tmp/a.db', 'a')", /does not exist|disabled|extension/],
  ],
  'other statements': [
    ["copy (select 1) to '/tmp/sluice-was-here.csv'", ONLY_SELECT],
    ["attach '/tmp/sluice-was-here.db' as a", ONLY_SELECT],
    ['install httpfs', ONLY_SELECT],
    ["load '/tmp/evil.duckdb_extension'", ONLY_SELECT],
    ["set memory_limit = '100GB'", ONLY_SELECT],
    ['reset lock_configuration', ONLY_SELECT],
    ['create table a as select 1', ONLY_SELECT],
    ['drop table "default".bronze.a', ONLY_SELECT],
    ["attach 'host=127.0.0.1' as a (type postgres)", ONLY_SELECT],
    ["create secret (type s3, key_id 'a', secret 'b')", ONLY_SELECT],
    ["export database '/tmp/sluice-was-here'", ONLY_SELECT],
    ['checkpoint', ONLY_SELECT],
    ['pragma disable_checkpoint_on_shutdown', ONLY_SELECT],
    ['call pragma_version()', ONLY_SELECT],
    ['select 1; select 2', ONLY_SELECT],
    ["select 1; copy (select 2) to '/tmp/sluice-was-here.csv'", ONLY_SELECT],
  ],
  'functions that act': [
    ["select * from enable_logging('QueryLog', storage = 'file', storage_path = 'x.csv')", NO_ACTING],
    ['select (select count(*) from system.main."ENABLE_PEG_PARSER" /* /* */ */ ()) as a', NO_ACTING],
    ["select * from query('from enable_' || 'logging()')", NO_ACTING],
    ['from arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)', NO_ACTING],
  ],
  'the environment': [
    ["select getenv('DATABASE_URL') as a", /getenv/],
    ["select getenv('PLATFORM_API_KEY') as a", /getenv/],
    [
      "select getvariable('a') is null as a, current_setting('nothing_like_it') as b",
      /current_setting\(\) is not allowed/,
    ],
  ],
  'the settings and paths of its engine': [
    ["select current_setting('temp_directory') as a", /current_setting\(\) is not allowed/],
    [
      "select list_transform(['allowed_paths'], n -> current_setting(n)) as a",
      /current_setting\(\) is not allowed/,
    ],
    ['from duckdb_settings()', /duckdb_settings\(\) is not allowed/],
    ['select setting from pg_catalog.pg_settings', /the view pg_settings is not allowed/],
    ["select sql from duckdb_views() where sql like '%read_parquet%'", /duckdb_views\(\) is not allowed/],
    ['from system.information_schema.views', /the view views is not allowed/],
    ['select (select max(sql) from sqlite_master) as a', /the view sqlite_master is not allowed/],
    ['select pg_get_viewdef(1) as a', /pg_get_viewdef\(\) is not allowed/],
    ['from duckdb_external_file_cache()', /duckdb_external_file_cache\(\) is not allowed/],
    ["from query_table('duckdb_' || 'views')", /query_table\(\) is not allowed/],
  ],
}
