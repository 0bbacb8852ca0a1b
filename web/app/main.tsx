import '../kit/base.css'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { Toasts } from '../kit/toast.tsx'
import { createQueries } from './queries.ts'
import { openRouter } from './router.tsx'

const queryClient = createQueries()
const router = openRouter(queryClient)
// What the page reads first is on its way while React begins.
void router.load()

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
      <Toasts />
    </QueryClientProvider>
  </StrictMode>,
)
