/** Exit codes, and one form for errors. */
import { plain } from '../system/terminal.js';

export const EXIT_OK = 0;
export const EXIT_FAILED = 1;
export const EXIT_USAGE = 2;
/** As init scripts use it (LSB): the resolver is not running. */
export const EXIT_NOT_RUNNING = 3;

export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** Errors go to standard error, with the program's name. */
export function complain(text: string): void {
  process.stderr.write(`holdfast: ${text}\n`);
}

/** What a command did is in force, and the resolver says why it is not on disk. */
export function warnUnsaved(reason: unknown): void {
  if (typeof reason === 'string') complain(`not on disk yet (${plain(reason)}): a crash now would undo it`);
}

/** `1 service`, `2 services`. */
export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}
