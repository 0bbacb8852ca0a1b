/** The other that holds the notes of a run, in Markdown. */
export const notesName = 'notes'
