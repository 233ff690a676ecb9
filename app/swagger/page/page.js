// A file of its own, not a script in the page: the page's policy runs no inline script.
const dark = matchMedia('(prefers-color-scheme: dark)')
const follow = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
follow()
dark.addEventListener('change', follow)

SwaggerUIBundle({
  url: 'swagger/json',
  dom_id: '#swagger-ui',
  deepLinking: true,
  docExpansion: 'list',
  defaultModelsExpandDepth: -1,
  displayRequestDuration: true,
  filter: true,
  tryItOutEnabled: true,
  // By default the document is sent to a validator of another origin.
  validatorUrl: null,
})
