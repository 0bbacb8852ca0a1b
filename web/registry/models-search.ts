/** What the address of the list of models holds. */
export type ModelsSearch = { search?: string; order?: 'name' }

export const parseModelsSearch = ({ search, order }: Record<string, unknown>): ModelsSearch => ({
  ...(search !== undefined && search !== '' && { search: String(search) }),
  ...(order === 'name' && { order }),
})
