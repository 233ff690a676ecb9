// Specification: SQL pipelines, templates. A template reaches only the documented names, within its limits of time and memory.
import { expect, test } from '@playwright/test'
import { expectHealthy, expectRefused, newPreview } from './attempts.ts'

const UNDEFINED =
  /undefined|unknown|no (?:filter|test|method|function|attribute)|not (?:defined|callable)|cannot|invalid/i
const NO_TEMPLATES =
  /unknown statement|unknown tag|template|include|not (?:supported|found)|syntax|unexpected/i
const TOO_MUCH =
  /too (?:long|large|much|many|deep)|limit|out of (?:fuel|memory)|fuel|recursion|range|stack|took/i

const ATTEMPTS: Record<string, [template: string, message: RegExp][]> = {
  'internals of its objects': [
    ['{{ ref.__class__ }}', UNDEFINED],
    ['{{ ref.constructor("return process")() }}', UNDEFINED],
    ['{{ ref["constructor"] }}', UNDEFINED],
    ['{{ "".__class__.__mro__[1].__subclasses__() }}', UNDEFINED],
    ['{{ ().__class__.__base__ }}', UNDEFINED],
    ['{{ this.constructor.constructor("return this")() }}', UNDEFINED],
    ['{{ run_started_at.__proto__.polluted }}', UNDEFINED],
    ['{{ self.__init__.__globals__ }}', UNDEFINED],
    ['{{ self._TemplateReference__context }}', UNDEFINED],
    ['{% for a in [1] %}{{ loop.__class__.__init__ }}{% endfor %}', UNDEFINED],
    ['{{ namespace.__init__.__globals__ }}', UNDEFINED],
    ['{% set n = namespace() %}{{ n.__class__.__mro__ }}', UNDEFINED],
    ['{{ cycler.__init__.__globals__.os.popen("id").read() }}', UNDEFINED],
    ['{{ lipsum.__globals__["os"] }}', UNDEFINED],
    ['{{ joiner.__init__ }}', UNDEFINED],
    ['{{ config.items() }}', UNDEFINED],
    ['{{ request.application }}', UNDEFINED],
    ['{{ process.env.DATABASE_URL }}', UNDEFINED],
    ['{{ globalThis }}', UNDEFINED],
    ['{{ env("DATABASE_URL") }}', UNDEFINED],
    ['{{ env_var("PLATFORM_API_KEY") }}', UNDEFINED],
    ['{{ require("fs") }}', UNDEFINED],
    ['{{ import("node:fs") }}', UNDEFINED],
    ['{{ "a"|attr("__class__")|attr("__mro__") }}', UNDEFINED],
    ['{{ [1]|map(attribute="__class__.__base__")|list }}', UNDEFINED],
    ['{{ "x"|eval }}', UNDEFINED],
    ['{{ eval("1") }}', UNDEFINED],
    ['{{ Function("return 1")() }}', UNDEFINED],
    ['{{ ref.call.call }}', UNDEFINED],
    ['{{ caller() }}', UNDEFINED],
    ['{{ varargs }}', UNDEFINED],
    ['{{ context }}', UNDEFINED],
  ],
  'other templates': [
    ['{% include "/etc/passwd" %}', NO_TEMPLATES],
    ['{% include "../../config.yaml" %}', NO_TEMPLATES],
    ['{% extends "/etc/passwd" %}', NO_TEMPLATES],
    ['{% import "os" as os %}{{ os }}', NO_TEMPLATES],
    ['{% from "fs" import readFileSync %}', NO_TEMPLATES],
    ['{% include ["a", "b"] %}', NO_TEMPLATES],
  ],
  'unlimited time or memory': [
    ['{% for a in range(100000000) %}x{% endfor %}', TOO_MUCH],
    [
      '{% for a in range(10000) %}{% for b in range(10000) %}{% for c in range(10000) %}{% endfor %}{% endfor %}{% endfor %}',
      TOO_MUCH,
    ],
    ['{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}', TOO_MUCH],
    ['{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}', /./],
    [
      '{% set ns = namespace(x="x" * 1000) %}{% for a in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}',
      TOO_MUCH,
    ],
    ['{{ "x" * 10000000000 }}', /./],
    ['{{ "%1000000000d"|format(1) }}', /./],
    ['{{ range(1000000000)|list|length }}', TOO_MUCH],
    ['{{ [0] * 10000000000 }}', /./],
    ['{{ "a"|center(10000000000) }}', /./],
    ['{{ "a"|indent(10000000000) }}', /./],
    [
      '{{ "x"|replace("", "xxxxxxxxxx"|replace("x", "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"))|replace("x", "x" * 100000)|length * "x" }}',
      /./,
    ],
    [`{% for a in range(2) recursive %}{{ loop([1]) }}{% endfor %}`, /./],
    [`${'{{ '.repeat(2_000)}1`, /./],
    [`{{ ${'('.repeat(5_000)}1${')'.repeat(5_000)} }}`, /./],
    [`${'{% if true %}'.repeat(3_000)}1${'{% endif %}'.repeat(3_000)}`, /./],
    ['{% for a in range(100000) %}{{ ref("bronze.a" ~ a) }}{% endfor %}', /more than 1000 tables/],
  ],
  'names outside of the rules': [
    ['select * from {{ ref("../../../etc/passwd") }}', /ref|name/],
    ['select * from {{ ref("default.bronze.a\\" union select 1 --") }}', /ref|name/],
    ['select * from {{ ref("a.b.c.d") }}', /ref|name/],
    ['select * from read_csv(\'{{ landing_zone("../../secrets") }}\')', /zone|name/],
    ['select * from read_csv(\'{{ landing_zone("/etc") }}\')', /zone|name/],
    ["select * from read_csv('{{ landing_zone(\"a' , '/etc/passwd\") }}')", /zone|name/],
    ['select * from read_csv(\'{{ landing_zone("nothing-like-it") }}/../../../etc/passwd\')', /zone/],
    ['select * from read_text(\'{{ "/etc/" ~ "passwd" }}\')', /disabled/],
  ],
}

for (const [what, attempts] of Object.entries(ATTEMPTS))
  test(`a template does not get ${what}: ${attempts.length} attempts`, async ({ request }) => {
    const { ask } = await newPreview(request)
    for (const [template, message] of attempts) {
      const code = template.startsWith('select') ? template : `select '${template}' as a`
      await expectRefused(await ask(code), template, message)
    }
    await expectHealthy(request)
  })

const CONFIGS: [yaml: string, what: string][] = [
  [
    `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghij'
      .split('')
      .map((n, i) => `${n}: &${n} [${Array(9).fill(`*${'abcdefghi'[i]}`).join(',')}]`)
      .join('\n')}`,
    'grows by aliases',
  ],
  ['unique_key: &a [*a]', 'contains itself'],
  ['description: !!js/function "function () { return process.env }"', 'contains a function'],
  ['description: !!python/object/apply:os.system ["id"]', 'contains a call'],
  ['description: !include /etc/passwd', 'includes a file'],
  ['<<: &a {b: *a}', 'merges itself'],
  [`${'['.repeat(20_000)}`, 'nests 20,000 lists'],
  ['__proto__: {materialized: view}', 'changes prototypes'],
  ['constructor: {prototype: {polluted: 1}}', 'changes constructors'],
  ['merge_strategy: [full_refresh]', 'is of another type'],
  ['unique_key: "id; drop table run"\nmerge_strategy: incremental', 'injects SQL'],
  [
    'partition_column: "a\\"); attach \'/tmp/x.db\' as x; --"\nmerge_strategy: snapshot',
    'injects statements',
  ],
  ['max_retries: 1e999', 'contains an infinite number'],
  ['retry_delay_seconds: -1', 'contains a negative delay'],
]

test(`a configuration is only data: ${CONFIGS.length} attempts`, async ({ request }) => {
  const { url, prefix } = await newPreview(request)
  for (const [yaml, what] of CONFIGS) {
    const put = await request.put(`/api/v1/files/${prefix}config.yaml`, { data: { content: yaml } })
    expect(put.status(), what).toBe(200)
    const response = await request.post(`${url}/preview`, { data: {} })
    const text = await response.text()
    // Text stays text and leaves the query unchanged. Any other configuration is refused with the name of the file.
    if (response.status() === 200) expect.soft([what, JSON.parse(text).rows]).toEqual([what, [[1]]])
    else
      expect
        .soft([what, response.status(), text])
        .toEqual([what, 400, expect.stringMatching(/config\.yaml line \d+|config\.yaml: /)])
    expect(text).not.toMatch(/DATABASE_URL|canary-|root:x:/)
  }
  await expectHealthy(request)
})
