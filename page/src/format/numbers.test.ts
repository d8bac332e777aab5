import { expect, it } from 'vitest'
import {
  bytes,
  duration,
  measured,
  percent,
  short,
  tidy,
  unitByName,
  unitRatio,
  written,
} from './numbers'

it('numbers have three digits', () => {
  expect([0, 7, 999, 1_000, 12_345, 999_960, 1.234, 12.34, 123.4].map(short)).toEqual([
    '0',
    '7',
    '999',
    '1k',
    '12.3k',
    '1M',
    '1.23',
    '12.3',
    '123',
  ])
})

it('something is never shown as nothing', () => {
  expect(short(0.003)).toBe('<0.01')
  expect(percent(0)).toBe('0 %')
  expect(percent(0.00001)).toBe('<0.01 %')
  expect(percent(0.9999)).toBe('>99.9 %')
  expect(percent(1)).toBe('100 %')
  expect(percent(0.123)).toBe('12.3 %')
})

it('times and sizes have the unit that suits them', () => {
  expect(duration(1_234_000_000)).toBe('1.23 s')
  expect(duration(999_900)).toBe('1 ms')
  expect(duration(90e9)).toBe('1.5 min')
  expect(bytes(1_536)).toBe('1.5 KiB')
  expect(measured(740, 'ms')).toBe('740 ms')
  expect(measured(5, null)).toBe('5')
})

it('a number in an expression keeps its unit', () => {
  expect(written(12.5, 'ms')).toBe('12.5ms')
  expect(written(200, undefined)).toBe('200')
})

it('the name of an attribute says what it measures', () => {
  const names = ['@duration', '@http.request_ms', '@wait_seconds', '@sent_bytes', '@status']
  expect(names.map(unitByName)).toEqual(['ns', 'ms', 's', 'B', undefined])
})

it('the dust of binary fractions is not shown', () => {
  expect([0.1 + 0.2, 0.20999999999999908, 1e21].map(tidy)).toEqual(['0.3', '0.21', '1e+21'])
  expect(tidy(1795792427536)).toBe('1795792427536')
})

it('times of two units are brought into one', () => {
  expect(unitRatio('s', 'ms')).toBe(1_000)
  expect(unitRatio('ms', 'ms')).toBe(1)
  expect(unitRatio(undefined, 'ms')).toBe(1)
})
