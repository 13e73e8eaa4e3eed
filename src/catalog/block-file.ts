/** Bytes that are read a block at a time: a large zone's snapshot has a hundred megabytes. Synchronous. */
import { closeSync, readSync } from 'node:fs';

const BLOCK_BYTES = 1 << 20;

export interface Blocks {
  readonly length: number;
  /** From byte `at` to the end; a block stays as it is until the next one. Throws when it cannot be read to its end. */
  from(at: number): Iterable<Buffer>;
  close(): void;
}

/** Of an open file, which it closes. */
export class BlockFile implements Blocks {
  readonly length: number;
  #descriptor: number | undefined;

  constructor(descriptor: number, length: number) {
    this.#descriptor = descriptor;
    this.length = length;
  }

  *from(start: number): Generator<Buffer> {
    const block = Buffer.allocUnsafe(Math.min(BLOCK_BYTES, this.length - start));
    for (let at = start; at < this.length; ) {
      if (this.#descriptor === undefined) throw new Error('it is closed');
      const read = readSync(this.#descriptor, block, 0, Math.min(block.length, this.length - at), at);
      if (read === 0) throw new Error('it was cut short while it was read');
      at += read;
      yield block.subarray(0, read);
    }
  }

  close(): void {
    if (this.#descriptor !== undefined) closeSync(this.#descriptor);
    this.#descriptor = undefined;
  }
}

/** Lines without their ends. What follows the last end is none. */
export function* linesOf(blocks: Iterable<Buffer>): Generator<string> {
  let begun: Buffer | undefined;
  for (const block of blocks) {
    let from = 0;
    for (;;) {
      const to = block.indexOf(0x0a, from);
      if (to === -1) break;
      if (begun === undefined) yield block.toString('utf8', from, to);
      else yield Buffer.concat([begun, block.subarray(from, to)]).toString('utf8');
      begun = undefined;
      from = to + 1;
    }
    const rest = block.subarray(from);
    if (begun !== undefined) begun = Buffer.concat([begun, rest]);
    else if (rest.length > 0) begun = Buffer.from(rest);
  }
}
