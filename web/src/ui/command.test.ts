import { execFileSync } from 'node:child_process'
import { describe, expect, test } from 'vitest'
import { commandLine, quote } from './command'

describe('the command line of an act', () => {
  test('has what it is about, how long and why', () => {
    const place = { is: 'giveEmergencyOrder evacuate', with: { place: 'cluster/use1-a', for: '30m' } } as const
    expect(commandLine(place)).toBe('anabranch evacuate cluster/use1-a --for 30m')
    expect(commandLine(place, ' power is failing ')).toBe("anabranch evacuate cluster/use1-a --for 30m --reason 'power is failing'")
    expect(commandLine({ is: 'freezeChanges' }, 'weekend')).toBe('anabranch freeze --reason weekend')
    expect(commandLine({ is: 'startDrill' })).toBe('anabranch drill run {id}')
  })

  test('a shell reads words back as they were', () => {
    for (const word of ['plain', 'two words', "it's $HOME", '`id`', '"', '\\', 'a;b', '{x}', '', '~', '!', 'é', '--for=1h']) {
      expect(execFileSync('/bin/sh', ['-c', `printf %s ${quote(word)}`]).toString()).toBe(word)
    }
  })
})
