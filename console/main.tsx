import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queryClient } from './api/queries.ts'
import { router } from './router.tsx'
import { preloadParts } from './shell/lazy-part.tsx'
import { styleNonce } from './shell/style-nonce.ts'
import { startTheme } from './shell/theme.ts'

startTheme()
// Dialogs add a style element; the policy of the page allows it by this nonce only.
setNonce(styleNonce())

const root = document.getElementById('root')
if (root === null) throw new Error('the page has no element #root')
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
)

const stop = router.subscribe('onRendered', () => {
  stop()
  void preloadParts()
})
