/** Exit codes, and one form for errors. */

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

/** `1 service`, `2 services`. */
export function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? '' : 's'}`;
}
