/** Writes wire data in network order into a buffer that grows. Kept and reused by its owner. */
export class ByteWriter {
  length = 0;
  #bytes: Uint8Array;

  constructor(capacity = 4096) {
    this.#bytes = new Uint8Array(capacity);
  }

  reset(): this {
    this.length = 0;
    return this;
  }

  /** What was written, as a view that the next write may invalidate. */
  view(): Uint8Array {
    return this.#bytes.subarray(0, this.length);
  }

  /** What was written, as a copy. */
  copy(): Uint8Array {
    return this.#bytes.slice(0, this.length);
  }

  u8(value: number): this {
    this.#room(1);
    this.#bytes[this.length++] = value;
    return this;
  }

  u16(value: number): this {
    this.#room(2);
    this.#bytes[this.length++] = value >>> 8;
    this.#bytes[this.length++] = value;
    return this;
  }

  u32(value: number): this {
    return this.u16(value >>> 16).u16(value & 0xffff);
  }

  bytes(bytes: Uint8Array): this {
    this.#room(bytes.length);
    this.#bytes.set(bytes, this.length);
    this.length += bytes.length;
    return this;
  }

  #room(more: number): void {
    if (this.length + more <= this.#bytes.length) return;
    const grown = new Uint8Array(Math.max(this.#bytes.length * 2, this.length + more));
    grown.set(this.#bytes);
    this.#bytes = grown;
  }
}
