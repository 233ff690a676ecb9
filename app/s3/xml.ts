// The little XML that S3 needs.

const NAMESPACE = 'http://s3.amazonaws.com/doc/2006-03-01/'
const ESCAPES: Record<string, string> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
}
/** Characters that XML 1.0 cannot represent, even escaped. */
const UNREPRESENTABLE = /[^\t\n\r\x20-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu

/** Markup, as opposed to text that must be escaped. */
export class Markup {
  constructor(readonly text: string) {}
}

/** An element with text, or with elements. */
export function element(name: string, content: string | number | boolean | readonly Markup[]): Markup {
  const inner =
    typeof content === 'object' ? content.map(({ text }) => text).join('') : escaped(String(content))
  return new Markup(`<${name}>${inner}</${name}>`)
}

/** The root element of a successful response. */
export const document = (name: string, content: string | readonly Markup[]): Markup => {
  const { text } = element(name, content)
  return new Markup(text.replace(`<${name}>`, `<${name} xmlns="${NAMESPACE}">`))
}

export const xmlResponse = ({ text }: Markup, status = 200, headers: Record<string, string> = {}): Response =>
  new Response(`<?xml version="1.0" encoding="UTF-8"?>\n${text}`, {
    status,
    headers: { ...headers, 'content-type': 'application/xml' },
  })

const escaped = (text: string) =>
  text
    .toWellFormed()
    .replaceAll(UNREPRESENTABLE, '\ufffd')
    .replaceAll(/[&<>"']/g, (character) => ESCAPES[character] ?? character)
