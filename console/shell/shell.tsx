import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useCallback, useEffect, useRef, useState } from 'react'
import { useLost } from '../api/queries.ts'
import { ROOT } from '../api/request.ts'
import { Button, IconButton, Kbd } from '../design/controls.tsx'
import { Icon } from '../design/icons.tsx'
import { Toasts } from '../design/toasts.tsx'
import { KeysHelp } from './help.tsx'
import { useShellKeys } from './keys.ts'
import { Palette } from './palette.tsx'
import { GROUPS, PLACES } from './places.ts'
import { SignIn } from './sign-in.tsx'
import { SignedIn } from './signed-in.tsx'
import { chooseTheme, useIsDark } from './theme.ts'

/** The frame around every page. */
export function Shell() {
  const [isPaletteOpen, setPaletteOpen] = useState(false)
  const [isHelpOpen, setHelpOpen] = useState(false)
  const [isMenuOpen, setMenuOpen] = useState(false)
  const openPalette = useCallback(() => setPaletteOpen(true), [])
  const openHelp = useCallback(() => setHelpOpen(true), [])
  useShellKeys({ openPalette, openHelp })
  const path = useRouterState({ select: (state) => state.location.pathname })
  const isLoading = useRouterState({ select: (state) => state.isLoading })
  useEffect(() => setMenuOpen(false), [path])
  const closeMenu = useCallback(() => setMenuOpen(false), [])
  return (
    <div className="shell">
      <a className="skip" href="#content">
        Skip to the content
      </a>
      <Side isOpen={isMenuOpen} close={closeMenu} openPalette={openPalette} openHelp={openHelp} />
      <div className="main">
        <header className="top">
          <IconButton
            icon={isMenuOpen ? 'close' : 'menu'}
            label={isMenuOpen ? 'Close the menu' : 'Open the menu'}
            aria-expanded={isMenuOpen}
            onClick={() => setMenuOpen(!isMenuOpen)}
          />
          <Brand />
          <span className="grow" />
          <IconButton icon="search" label="Search and commands" onClick={openPalette} />
        </header>
        {isLoading && <progress className="loading-page" aria-label="Loading the page" />}
        <Lost />
        <main id="content" tabIndex={-1}>
          <Outlet />
        </main>
      </div>
      <Palette isOpen={isPaletteOpen} onClose={() => setPaletteOpen(false)} />
      <KeysHelp isOpen={isHelpOpen} onClose={() => setHelpOpen(false)} />
      <SignIn />
      <Toasts />
    </div>
  )
}

const Brand = () => (
  <Link to="/" className="brand">
    <Icon name="lake" size={22} />
    Sluice
  </Link>
)

function Side({
  isOpen,
  close,
  openPalette,
  openHelp,
}: {
  /** Whether a narrow page shows the menu. */
  isOpen: boolean
  close: () => void
  openPalette: () => void
  openHelp: () => void
}) {
  const isDark = useIsDark()
  const menu = useRef<HTMLElement>(null)
  useEffect(() => {
    if (!isOpen) return
    const left = new AbortController()
    const { signal } = left
    addEventListener('keydown', ({ key }: KeyboardEvent) => key === 'Escape' && close(), { signal })
    // A link of the menu closes it, also the link of the page that is shown.
    addEventListener(
      'click',
      ({ target }) => {
        // The button of the menu is in the header, and it opens and closes the menu itself.
        if (!(target instanceof Element) || target.closest('header.top')) return
        if (!menu.current?.contains(target) || target.closest('a')) close()
      },
      { signal },
    )
    return () => left.abort()
  }, [isOpen, close])
  return (
    <nav ref={menu} className="side" data-open={isOpen} aria-label="Console">
      <Brand />
      <Button className="palette-trigger" size="small" onClick={openPalette}>
        <span className="row">
          <Icon name="search" /> Search
        </span>
        <Kbd>Ctrl K</Kbd>
      </Button>
      {Object.entries(GROUPS).map(([group, label]) => (
        <section key={group}>
          <h2>{label}</h2>
          <ul>
            {PLACES.filter((place) => place.group === group).map(({ path, label, icon }) => (
              <li key={path}>
                <Link to={path} activeOptions={{ exact: path === '/' }}>
                  <Icon name={icon} />
                  {label}
                </Link>
              </li>
            ))}
          </ul>
        </section>
      ))}
      <footer>
        <SignedIn />
        <Link className="row" to="/welcome">
          <Icon name="runs" /> Tour
        </Link>
        <a className="row" href={new URL('swagger', ROOT).href}>
          <Icon name="external" /> API
        </a>
        <span className="row">
          <IconButton
            icon={isDark ? 'sun' : 'moon'}
            label={isDark ? 'Light colours' : 'Dark colours'}
            onClick={() => chooseTheme(isDark ? 'light' : 'dark')}
          />
          <Button kind="quiet" size="small" onClick={openHelp}>
            <Kbd>?</Kbd> Keys
          </Button>
        </span>
      </footer>
    </nav>
  )
}

/** Says that the service does not answer, while any request waits for it. */
function Lost() {
  const lost = useLost()
  if (lost === null) return null
  return (
    <p className="lost" role="status">
      No connection to the service.{' '}
      {lost === 'retrying' ? 'Trying again…' : 'The pages show what was loaded before.'}
    </p>
  )
}
