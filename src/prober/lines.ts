/** Lines of JSON on a stream: splitting with a bound, and packing many items into lines of a bounded size. */

const NEWLINE = 0x0a;

/** Cuts a stream of bytes into lines. A line over the bound is skipped as it comes in and counted, never stored. */
export class LineSplitter {
  #parts: Buffer[] = [];
  #held = 0;
  #skipping = false;
  /** Lines that were over the bound. */
  tooLong = 0;

  constructor(readonly maxBytes: number) {}

  /** Bytes of the unfinished line that are kept. */
  get held(): number {
    return this.#held;
  }

  /** The lines that `chunk` completes, without their newline. */
  push(chunk: Buffer): string[] {
    const lines: string[] = [];
    let from = 0;
    for (let end = chunk.indexOf(NEWLINE, from); end !== -1; end = chunk.indexOf(NEWLINE, from)) {
      this.#take(chunk.subarray(from, end));
      if (!this.#skipping) lines.push(Buffer.concat(this.#parts, this.#held).toString('utf8'));
      this.#parts = [];
      this.#held = 0;
      this.#skipping = false;
      from = end + 1;
    }
    this.#take(chunk.subarray(from));
    return lines;
  }

  #take(part: Buffer): void {
    if (this.#skipping || part.length === 0) return;
    if (this.#held + part.length <= this.maxBytes) {
      this.#parts.push(part);
      this.#held += part.length;
      return;
    }
    this.#parts = [];
    this.#held = 0;
    this.#skipping = true;
    this.tooLong++;
  }
}

/**
 * Takes items from the front of `items` for one line of at most about `maxBytes`, always at least one.
 * Returns how many, so that the caller can go on from there.
 */
export function fitLine(items: readonly unknown[], from: number, maxBytes: number): number {
  let bytes = 0;
  let count = 0;
  while (from + count < items.length) {
    bytes += Buffer.byteLength(JSON.stringify(items[from + count])) + 1;
    if (count > 0 && bytes > maxBytes) break;
    count++;
  }
  return count;
}
