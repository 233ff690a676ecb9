// Runs before the page is painted, and applies the reader's choice of colours or the system's colours.
const CHOICES = ['auto', 'light', 'dark']
/** @type {Record<string, string>} */
const LABELS = { auto: 'Auto', light: 'Light', dark: 'Dark' }

const stored = localStorage.getItem('sluice-theme')
let theme = stored !== null && CHOICES.includes(stored) ? stored : 'auto'

function apply() {
  if (theme === 'auto') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}
apply()

addEventListener('DOMContentLoaded', () => {
  const button = document.getElementById('theme')
  if (button === null) return
  const show = () => {
    button.textContent = LABELS[theme] ?? theme
    button.title = theme === 'auto' ? 'Colours: system setting' : `Colours: ${theme}`
  }
  show()
  button.addEventListener('click', () => {
    theme = CHOICES[(CHOICES.indexOf(theme) + 1) % CHOICES.length] ?? 'auto'
    localStorage.setItem('sluice-theme', theme)
    apply()
    show()
  })
})
