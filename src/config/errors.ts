/**
 * A configuration that cannot be used: one error, as `file:line: key: what was expected` (design, configuration).
 * The command line prints `message` and leaves with exit code 2; a reload prints it and keeps what runs.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly file: string;
  /** Counted from 1; absent when no place in the file is meant. */
  readonly line: number | undefined;
  /** Such as `zones[0].softTtl`; empty when no key is meant. */
  readonly key: string;

  constructor(
    file: string,
    problem: string,
    place: { readonly line?: number | undefined; readonly key?: string } = {},
  ) {
    const key = place.key ?? '';
    super(`${file}${place.line === undefined ? '' : `:${place.line}`}: ${key === '' ? '' : `${key}: `}${problem}`);
    this.file = file;
    this.line = place.line;
    this.key = key;
  }
}

/** Where in the tree of a file something is: map keys and list indexes. */
export type KeyPath = readonly (string | number)[];

/** `zones[0].services["db-*"].check` */
export function showPath(path: KeyPath): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (/^[A-Za-z_][\w-]*$/.test(step)) text += text === '' ? step : `.${step}`;
    else text += `[${JSON.stringify(step)}]`;
  }
  return text;
}

const MAX_SHOWN = 60;

/** A value as an error shows it, on one line and cut to a bearable length. Errors are logged: it has no secret of a URL. */
export function showValue(value: unknown): string {
  if (value === null || value === undefined) return 'nothing';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'object') return 'a map';
  if (typeof value === 'bigint') return String(value);
  const text = typeof value === 'string' ? JSON.stringify(withoutSecrets(value)) : String(value);
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}...` : text;
}

/** Without credentials and what is asked for, in whatever may be meant to be a URL. */
function withoutSecrets(text: string): string {
  return text.replace(/^([a-z][a-z\d+.-]*:\/\/)?.*@/is, '$1...@').replace(/\?.*$/s, '?...');
}

/** The known word nearest to a mistyped one, when it is near enough to be meant. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

function editDistance(a: string, b: string): number {
  if (Math.abs(a.length - b.length) > 8) return Infinity;
  let row = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const swap = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(swap, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row[b.length]!;
}
