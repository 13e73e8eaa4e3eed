/**
 * What is another in a list of objects in JSON than when it came the last time, told by its bytes. Such a list may have
 * megabytes and differ in one object: only the part where it differs is parsed. Pure.
 */

/** Longer lists are not kept. */
const MOST_KEPT = 32 << 20;
/** Of a list that differs all over, nothing is gained by telling where. */
const MOST_PARSED = 1 << 20;
const STEP = 1 << 16;

export interface ChangedPart {
  /** Some of them are the same in both. */
  readonly before: readonly unknown[];
  readonly now: readonly unknown[];
}

export class ChangedPartOf {
  /** What each object begins with. No text in it can have that: its quotes are escaped. */
  readonly #first: string;
  #kept: Buffer | undefined;

  /** @param field that each object begins with, and no object within has */
  constructor(field: string) {
    this.#first = `{"${field}":`;
  }

  get isOfUse(): boolean {
    return this.#kept !== undefined;
  }

  /** Undefined: the next list has nothing to be compared with. */
  keep(bytes: Buffer | undefined): void {
    this.#kept = bytes !== undefined && bytes.length <= MOST_KEPT ? bytes : undefined;
  }

  /** Undefined where the list has to be parsed as a whole. It is kept in either case. */
  compare(now: Buffer): ChangedPart | undefined {
    const before = this.#kept;
    this.keep(now);
    if (before === undefined) return undefined;
    const most = Math.min(before.length, now.length);
    const head = alike(most, (from, to) => before.compare(now, from, to, from, to) === 0);
    const tail = alike(most - head, (from, to) => {
      const [a, b] = [before.length, now.length];
      return before.compare(now, b - to, b - from, a - to, a - from) === 0;
    });
    if (head === before.length && head === now.length) return { before: [], now: [] };
    if (head <= this.#first.length) return undefined;
    // From the beginning of the object in which they part to the end of the one in which they meet.
    const start = now.lastIndexOf(this.#first, head - this.#first.length);
    const next = now.indexOf(`},${this.#first}`, now.length - tail);
    const end = next < 0 ? now.lastIndexOf(']') : next + 1;
    const endBefore = end + before.length - now.length;
    if (start < 0 || end < start || endBefore < start || end - start > MOST_PARSED) return undefined;
    const [old, parts] = [parse(before.subarray(start, endBefore)), parse(now.subarray(start, end))];
    return old === undefined || parts === undefined ? undefined : { before: old, now: parts };
  }
}

/** How many bytes, up to `most`, are the same. @param same whether those between two places are */
function alike(most: number, same: (from: number, to: number) => boolean): number {
  let at = 0;
  while (at < most && same(at, Math.min(at + STEP, most))) at = Math.min(at + STEP, most);
  for (let step = STEP; step >= 1 && at < most; step >>= 1) {
    const to = Math.min(at + step, most);
    if (same(at, to)) at = to;
  }
  return at;
}

function parse(part: Buffer): unknown[] | undefined {
  try {
    return JSON.parse(`[${part.toString('utf8')}]`) as unknown[];
  } catch {
    return undefined;
  }
}
