// A separate file, because the policy of the page forbids inline scripts.
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
  // By default, Swagger UI sends the document to a validator of another origin.
  validatorUrl: null,
})
