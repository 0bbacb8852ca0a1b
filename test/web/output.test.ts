import { describe, expect, it } from 'vitest'
import { toAxis, toChange, toRows } from '../../web/experiments/compare/compared.ts'
import { parsePatch } from '../../web/experiments/output/patch.ts'
import { findStarts, toRow, toText } from '../../web/experiments/output/terminal.ts'

const esc = '\u001b'

describe('a row of output', () => {
  it('shows colours: sixteen, 256 and all; an end of a line does not end them', () => {
    expect(toRow(`${esc}[1;31merror${esc}[0m: ok`).spans).toEqual([
      { text: 'error', style: { bold: true, fg: 1 } },
      { text: ': ok', style: {} },
    ])
    const colourOf = (codes: string) => toRow(`${esc}[${codes}mx`).spans[0]?.style
    expect(colourOf('38;5;9')).toEqual({ fg: 9 })
    expect(colourOf('38;5;196')).toEqual({ fg: 'rgb(255 0 0)' })
    expect(colourOf('48;5;244')).toEqual({ bg: 'rgb(128 128 128)' })
    expect(colourOf('38;2;1;2;3;4')).toEqual({ fg: 'rgb(1 2 3)', underline: true })
    expect(colourOf('94;107')).toEqual({ fg: 12, bg: 15 })
    expect(colourOf('38;2;1;2;999')).toEqual({})
    expect(colourOf('1;31;22;39')).toEqual({})
    const lines = [`${esc}[32mgreen`, 'still', `end${esc}[m`, 'plain']
    expect([...findStarts(lines).starts]).toEqual([
      [1, { fg: 2 }],
      [2, { fg: 2 }],
    ])
  })

  it('collapses progress bars, as a terminal does', () => {
    expect(toText('  0%|   |\r 50%|#  |\r100%|###|')).toBe('100%|###|')
    expect(toText('a long line\rshort')).toBe('shortg line')
    expect(toText(`a long line\r${esc}[Kshort`)).toBe('short')
    expect(toText(`a long line${esc}[2K\rnew`)).toBe('new')
    expect(toText('abc\b\bX')).toBe('aXc')
    expect(toText(`ab${esc}[5GZ`)).toBe('ab  Z')
    expect(toText('windows\r')).toBe('windows')
  })

  it('leaves out what would reach beyond it', () => {
    const hostile = [
      `${esc}]0;title\u0007text`,
      `${esc}]8;;https://evil.example${esc}\\text${esc}]8;;${esc}\\`,
      `${esc}[2J${esc}[10;10Htext`,
      `${esc}P+q544e${esc}\\text`,
      `${esc}ctext`,
      `\u0000\u0008te\u009bxt`,
      `${esc}[?1049htext${esc}[6n`,
    ]
    for (const it of hostile) expect(toText(it), JSON.stringify(it)).toBe('text')
    expect(toText(`${esc}[999999999999Gx`).length).toBeLessThanOrEqual(100_000)
    expect(toText('<img src=x onerror=alert(1)>')).toBe('<img src=x onerror=alert(1)>')
  })
})

it('a git patch has its files, counts and line numbers; what is no patch stays readable', () => {
  const files = parsePatch(`diff --git a/train.py b/train.py
index 1..2 100644
--- a/train.py
+++ b/train.py
@@ -1,3 +1,3 @@ def f():
 same
--- old comment
+++ new
 end
diff --git a/logo.png b/logo.png
Binary files differ
`)
  expect(files.map(({ name, added, removed }) => [name, added, removed])).toEqual([
    ['train.py', 1, 1],
    ['logo.png', 0, 0],
  ])
  expect(files[0]?.lines).toEqual([
    { kind: 'hunk', text: '@@ -1,3 +1,3 @@ def f():' },
    { kind: 'same', text: 'same', before: 1, after: 1 },
    { kind: 'remove', text: '-- old comment', before: 2 },
    { kind: 'add', text: '++ new', after: 2 },
    { kind: 'same', text: 'end', before: 3, after: 3 },
  ])
  expect(files[1]?.lines).toEqual([{ kind: 'note', text: 'Binary files differ' }])
  expect(parsePatch('no patch')[0]?.lines).toEqual([{ kind: 'note', text: 'no patch' }])
})

it('runs are compared by rows that differ, by percentages of a baseline, and on axes of numbers or texts', () => {
  const run = (experimentKey: string, values: [string, string][]) => ({
    experimentKey,
    name: experimentKey,
    values: new Map(values),
  })
  const rows = toRows([
    run('a', [
      ['p:lr', '0.1'],
      ['m:loss', '2'],
    ]),
    run('b', [
      ['m:loss', '2'],
      ['p:lr', '0.2'],
      ['p:x', ''],
    ]),
  ])
  expect(rows.map(({ id, differs }) => [id, differs])).toEqual([
    ['p:lr', true],
    ['p:x', true],
    ['m:loss', false],
  ])
  expect(toChange('0.2', '0.1')).toBe('+100%')
  expect(toChange('0.75', '1')).toBe('−25.0%')
  expect(toChange('-3', '-2')).toBe('−50.0%')
  for (const [value, baseline] of [
    ['adam', '1'],
    ['1', '0'],
    ['NaN', '1'],
    ['2.0', '2'],
    ['', '1'],
  ] as const) {
    expect(toChange(value, baseline), `${value} of ${baseline}`).toBeUndefined()
  }
  expect(toAxis(['1', '3', undefined, '2']).places).toEqual([0, 1, undefined, 0.5])
  expect(toAxis(['sgd', 'adam', 'sgd']).places).toEqual([1, 0, 1])
  expect(toAxis(['5', '5']).places).toEqual([0.5, 0.5])
  expect(toAxis(['1', 'NaN'])).toMatchObject({ isNumeric: false })
})
