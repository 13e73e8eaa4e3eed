/** Names of services whose snapshot line is out of date, gone ones too. */
export class Unsaved {
  readonly #names = new Set<string>();
  #others: Iterator<string> | undefined;

  add(name: string): void {
    this.#names.add(name);
  }

  /** These too, which are walked over only as they are taken: a large zone has very many. */
  addAll(names: Iterable<string>): void {
    this.#others = names[Symbol.iterator]();
  }

  clear(): void {
    this.#names.clear();
    this.#others = undefined;
  }

  get some(): boolean {
    return this.#names.size > 0 || this.#others !== undefined;
  }

  /** Each that is walked over is out of it. */
  *take(): Generator<string> {
    for (const name of this.#names) {
      this.#names.delete(name);
      yield name;
    }
    while (this.#others !== undefined) {
      const { value, done } = this.#others.next();
      if (done) this.#others = undefined;
      else yield value;
    }
  }
}
