/**
 * Differences from the released OpenAPI document that the breaking-change check ignores. They break no client, because the
 * released document described the service incompletely. The list is emptied at each release. A correction that matches no
 * change fails the check.
 */
interface Correction {
  change: RegExp
  reason: string
}

const CORRECTIONS: Correction[] = [
  {
    change: /inspector\/machines\/\{drawing\}: the path is gone$/,
    reason: 'Each drawing has its own path: the same addresses answer.',
  },
  {
    change: /: operationId '(get|post|put|delete)[A-Z]\w*' has become '/,
    reason: 'Names made from method and path became names by people. No request carries them.',
  },
  {
    change: /: query parameter '(limit|offset)' was string and is integer$/,
    reason: 'The service reads a text that is no number as the default, and still does.',
  },
  {
    change: /: query parameter '(before|after|step)' was string and is integer$/,
    reason: 'The pattern of the released document accepts digits only.',
  },
  {
    change: /^GET \S+versions\/\{number\}: path parameter 'number' was string and is integer$/,
    reason: 'The service has always answered 400 to a text that is no number.',
  },
  {
    change: /: query parameter '(sort|order)' now accepts only /,
    reason: 'The service has always answered 400 to other values.',
  },
  {
    change: /: body\.column_descriptions was anything and is object$/,
    reason: 'The service has always answered 400 to anything but an object of texts.',
  },
  {
    change: /triggers: body\[type=(\w+)\]\.config no longer accepts its alternative '(?!\1')\w+' as it was$/,
    reason: 'The service has always answered 400 to the config of another type.',
  },
  {
    change: /^GET \S+\/(logs|events): response 200 (was string and is|has a new alternative)/,
    reason: 'The schema of `text/event-stream` shows the data of the events, not the text of the stream.',
  },
  {
    change: /^POST \/api\/v1\/webhooks: response 401 is gone$/,
    reason: 'A webhook needs no key, so that the service has never answered 401.',
  },
]

/** Returns the changes that no correction accepts, and each correction that matches no change. */
export function uncorrected(changes: readonly string[], corrections = CORRECTIONS): string[] {
  const unused = corrections.filter(({ change }) => !changes.some((one) => change.test(one)))
  return [
    ...changes.filter((one) => !corrections.some(({ change }) => change.test(one))),
    ...unused.map(
      ({ change }) =>
        `tools/check/openapi-corrections.ts: ${change} matches no change: remove the correction`,
    ),
  ]
}
