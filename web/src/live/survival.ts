import { useRead } from '../api/query'

/** So many losses are tried; of a larger fleet those of the regions that do most work, as each takes a good part of a second. */
const TRIED = 24

/** What would be left without each region; of how many regions the fleet is says what is asked, 0: not known yet. */
export function useSurvival(regions: number) {
  const many = regions > TRIED
  return useRead('survival', many ? { query: { most: TRIED } } : {}, { every: many ? 60_000 : 15_000, enabled: regions > 0 })
}
