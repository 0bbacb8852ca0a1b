import {
  droppedBits,
  featureIndex,
  hashOf,
  isNumber,
  literal,
  quote,
  round,
  rounded,
  roundedBits,
} from '../expressions.ts'
import type { Grid } from './grids.ts'

/** The SQL that counts values into the cells of a rollup: equal values, or such that are rounded or hashed to the same. */

/** More versions than this are not named in a statement, whose length is limited: anybody may report as many as events. */
const versionsNamedMax = 100
/** As much for what a statement says of each feature and version. */
const boundsNamedMax = 1_000

export const areNamed = (versions: readonly string[]) => versions.length <= versionsNamedMax

/** Features whose values are counted in the same way, the columns that this takes, and its SQL. */
export const waysOfCounting = (grids: Grid[], versions: readonly string[]) => {
  const isPacked = areNamed(versions) && grids.length * versions.length <= boundsNamedMax
  const toWay = ({ center, hasTexts }: Grid) =>
    hasTexts ? 'texts' : isPacked && center !== undefined ? 'packed' : 'plain'
  return [...Map.groupBy(grids, toWay)].map(([way, its]) => ({
    grids: its,
    columns: `version, name, type, number${way === 'texts' ? ', text' : ''}`,
    select: (values: string) => (way === 'packed' ? countPacked : countCells)(values, its, versions),
  }))
}

/**
 * Counts values whose numbers are rounded, in a third of the time: feature, version, type and the 21 bits that are left of a number
 * are one integer. None has a text, and what is no number is 0, 1 or NaN. Rounding keeps the order, so the least number is in the
 * least cell. Adding 0 makes of -0 the same distance.
 */
function countPacked(values: string, grids: Grid[], versions: readonly string[]): string {
  const names = grids.map((it) => it.name)
  const named = `[${versions.map(quote)}]`
  const centers = `[${grids.map((it) => literal(it.center ?? 0))}]::Array(Float64)`
  /** Of each feature the number of each version. */
  const pick = (toNumber: (grid: Grid, version: string) => number) =>
    `[${grids.flatMap((grid) => versions.map((it) => literal(toNumber(grid, it))))}]::Array(Float64)[f * ${versions.length} + v]`
  const bound = (end: 0 | 1) => {
    const exact = ({ bounds }: Grid, version: string) => bounds.get(version)?.[end] ?? 0
    return `if(is_rounded AND x = ${pick((it, version) => round(exact(it, version), it.center ?? 0))}, ${pick(exact)}, x)`
  }
  const distance = `if(type IN (1, 2), number - ${centers}[f + 1] + toFloat64(0), number)`
  return `SELECT [${names.map(quote)}][f + 1] AS name, ${named}[v] AS version, type, x AS number, '' AS text, weight,
      toUInt8(type IN (1, 2) AND isFinite(x)) AS is_rounded, ${centers}[f + 1] AS center, toUInt8(0) AS is_hashed,
      ${bound(0)} AS least, ${bound(1)} AS most
    FROM (
      SELECT toUInt16(bitShiftRight(cell, 32)) AS f, toUInt8(bitAnd(bitShiftRight(cell, 24), 255)) AS v,
        toUInt8(bitAnd(bitShiftRight(cell, 21), 7)) AS type,
        reinterpretAsFloat64(bitShiftLeft(bitAnd(cell, ${(1n << (64n - droppedBits)) - 1n}), ${droppedBits})) AS kept,
        if(type IN (1, 2), ${centers}[f + 1] + kept, kept) AS x, weight
      FROM (
        SELECT bitShiftLeft(toUInt64(f), 32) + bitShiftLeft(toUInt64(v), 24) + bitShiftLeft(toUInt64(type), 21)
            + bitShiftRight(${roundedBits(distance)}, ${droppedBits}) AS cell, count() AS weight
        FROM (SELECT *, ${featureIndex(names)} AS f, toUInt8(indexOf(${named}, toString(version))) AS v FROM ${values})
        WHERE NOT is_dead AND v != 0 GROUP BY cell))`
}

/**
 * Counts the values of features by version. All have texts, or none: without texts a cell is known by a few bytes, and counting takes
 * half the time. Values of other versions than those given may be left out.
 */
function countCells(values: string, grids: Grid[], versions: readonly string[]): string {
  const names = grids.map((it) => it.name)
  const f = featureIndex(names)
  const named = `[${versions.map(quote)}]`
  const v = areNamed(versions) ? `toUInt8(indexOf(${named}, toString(version)))` : 'version'
  const centers = `[${grids.map((it) => literal(it.center ?? 0))}]::Array(Float64)`
  const isRounded = `[${grids.map((it) => it.center !== undefined)}][f + 1]`
  const isHashed = `[${grids.map((it) => it.isHashed)}][f + 1]`
  const x = `if(${isRounded} AND ${isNumber} AND isFinite(number), ${rounded(`${centers}[f + 1]`)}, number)`
  const text = `multiIf(${isRounded} AND ${isNumber}, '', ${isHashed} AND type = 4, ${hashOf('toString(text)')}, toString(text))`
  const hasTexts = grids.some((it) => it.hasTexts)
  const cell = `f, v, type, x${hasTexts ? ', t' : ''}`
  // The exact bounds are kept of all rounded numbers together: those of each cell would take as much room as the values.
  const ofAlike = 'OVER (PARTITION BY f, v, type IN (1, 2) AND isFinite(x))'
  return `SELECT [${names.map(quote)}][f + 1] AS name, ${areNamed(versions) ? `${named}[v]` : 'v'} AS version, type, x AS number,
      ${hasTexts ? 't' : "''"} AS text, weight, toUInt8(${isRounded} AND type IN (1, 2) AND isFinite(x)) AS is_rounded,
      if(${isRounded}, ${centers}[f + 1], 0) AS center, toUInt8(${isHashed} AND type = 4) AS is_hashed,
      if(low = min(low) ${ofAlike}, low, x) AS least, if(high = max(high) ${ofAlike}, high, x) AS most
    FROM (
      SELECT ${cell}, count() AS weight, min(value) AS low, max(value) AS high
      FROM (
        SELECT f, ${v} AS v, type, number AS value, ${x} AS x${hasTexts ? `, ${text} AS t` : ''}
        FROM (SELECT *, ${f} AS f FROM ${values}) WHERE NOT is_dead${areNamed(versions) ? ' AND v != 0' : ''})
      GROUP BY ${cell})`
}
