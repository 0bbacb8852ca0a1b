/**
 * A tag of MLflow is an other. Its name of a run is ours, and a tag that has the name which ours is kept under gets another.
 */
const ofRunName = 'mlflow.runName'
const ourName = 'Name'
const escaped = 'mlflow tag: Name'

/** The other that keeps a tag. */
export function toOtherName(tag: string): string {
  if (tag === ofRunName) return ourName
  return tag === ourName ? escaped : tag
}

/** The tag that an other is. */
export function toTagName(other: string): string {
  if (other === ourName) return ofRunName
  return other === escaped ? ourName : other
}
