/**
 * Registry files as trees that know their lines. A tree has strings, numbers, booleans, null, arrays and maps;
 * YAML maps are `Pairs` (their keys are kept as written, twice when they are there twice), JSON maps are objects.
 */

/** A YAML map. */
export class Pairs {
  readonly items: (readonly [key: string, value: unknown, line: number])[] = [];
  /** Where it begins, from 1. */
  readonly line: number;

  constructor(line: number) {
    this.line = line;
  }
}

/** What a text holds, or why it cannot be read, with the line (from 1) when it is known. */
export type TreeResult =
  | { readonly ok: true; readonly root: unknown }
  | { readonly ok: false; readonly reason: string; readonly line?: number };

/** The entries of a map; undefined for what is none. Safe for keys such as `__proto__` and `constructor`. */
export function entriesOf(value: unknown): readonly (readonly [string, unknown, number?])[] | undefined {
  if (value instanceof Pairs) return value.items;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  return Object.entries(value);
}

export function parseJson(text: string): TreeResult {
  try {
    return { ok: true, root: JSON.parse(text) as unknown };
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const position = /at position (\d+)/.exec(message)?.[1];
    const atEnd = /end of JSON input/i.test(message);
    const offset = position === undefined ? (atEnd ? text.length : undefined) : Number(position);
    const reason = `not JSON: ${
      atEnd
        ? 'it ends in the middle'
        : message
            .replace(/ \(line.*$/, '')
            .replace(/\s+/g, ' ')
            .slice(0, 200)
    }`;
    return offset === undefined ? { ok: false, reason } : { ok: false, reason, line: lineCounter(text)(offset) };
  }
}

/** Returns a function from an offset in `text` to its line, from 1. */
export function lineCounter(text: string): (offset: number) => number {
  const starts = [0];
  for (let i = text.indexOf('\n'); i !== -1; i = text.indexOf('\n', i + 1)) starts.push(i + 1);
  return (offset) => {
    let low = 0;
    let high = starts.length;
    while (low + 1 < high) {
      const middle = (low + high) >> 1;
      if (starts[middle]! <= offset) low = middle;
      else high = middle;
    }
    return low + 1;
  };
}
