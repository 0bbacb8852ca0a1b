import { Link } from '@tanstack/react-router'
import { EmptyPlace } from '../kit/places.tsx'

export function MissingPage() {
  return (
    <EmptyPlace title="There is no such page" action={<Link to="/">All projects</Link>}>
      The link may be incomplete, or what it leads to was deleted or moved.
    </EmptyPlace>
  )
}
