// Runs before the page is painted: the reader's choice of colours, or the system's.
const CHOICES = ['auto', 'light', 'dark']
const LABELS = { auto: 'Auto', light: 'Light', dark: 'Dark' }

const stored = localStorage.getItem('sluice-theme')
let theme = CHOICES.includes(stored) ? stored : 'auto'

function apply() {
  if (theme === 'auto') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}
apply()

addEventListener('DOMContentLoaded', () => {
  const button = document.getElementById('theme')
  const show = () => {
    button.textContent = LABELS[theme]
    button.title = theme === 'auto' ? 'Colours: as the system has them' : `Colours: ${theme}`
  }
  show()
  button.addEventListener('click', () => {
    theme = CHOICES[(CHOICES.indexOf(theme) + 1) % CHOICES.length]
    localStorage.setItem('sluice-theme', theme)
    apply()
    show()
  })
})
