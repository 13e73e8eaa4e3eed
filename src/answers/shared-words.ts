/** Words in shared memory that readers load one at a time. */
export class SharedWords {
  shared: SharedArrayBuffer;
  #words: Int32Array;

  constructor(length: number) {
    this.shared = new SharedArrayBuffer(length * 4);
    this.#words = new Int32Array(this.shared);
  }

  get length(): number {
    return this.#words.length;
  }

  /** Publishes a word; what was there before. */
  swap(at: number, value: number): number {
    return Atomics.exchange(this.#words, at, value);
  }

  /** An array of twice the length; readers of the old one keep it as it is. */
  grow(): void {
    this.#move(this.#words.length * 2);
  }

  /** An equal array that may change without readers of the old one noticing. */
  copy(): void {
    this.#move(this.#words.length);
  }

  #move(length: number): void {
    const old = this.#words;
    this.shared = new SharedArrayBuffer(length * 4);
    this.#words = new Int32Array(this.shared);
    this.#words.set(old);
  }
}
