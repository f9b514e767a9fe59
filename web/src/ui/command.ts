// What the page does, as a command line: each operation that the console uses has one. A test of cmd/anabranch
// holds the list against the commands that there are, and against the operations that the pages call.

import commands from './commands.json'

/** A line of the list, with what stands for its {names}. */
export interface Command {
  is: keyof typeof commands
  with?: Record<string, string | number>
}

/** The command line that does the same, to be pasted into a shell. What has no value stays {so}. */
export function commandLine(command: Command, reason = ''): string {
  const filled = commands[command.is].replaceAll(/\{(\w+)\}/g, (whole, name: string) => {
    const value = command.with?.[name]
    return value === undefined ? whole : quote(String(value))
  })
  return `anabranch ${filled}${reason.trim() ? ` --reason ${quote(reason.trim())}` : ''}`
}

/** A word as a POSIX shell reads it back, in quotes where it needs them. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`
}
