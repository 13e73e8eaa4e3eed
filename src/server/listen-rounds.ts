/** Listen messages are numbered; who sent one can wait until the threads have answered it. */
interface Wait {
  readonly round: number;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
}

export class ListenRounds {
  #current = 0;
  #waits: Wait[] = [];

  get current(): number {
    return this.#current;
  }

  next(): number {
    return ++this.#current;
  }

  /** Resolves when the current round is answered. */
  answered(): Promise<void> {
    return new Promise((resolve, reject) => this.#waits.push({ round: this.#current, resolve, reject }));
  }

  /** Every thread has answered `round` and those before it. */
  settle(round: number): void {
    const over = this.#waits.filter((wait) => wait.round <= round);
    this.#waits = this.#waits.filter((wait) => wait.round > round);
    for (const wait of over) wait.resolve();
  }

  fail(error: Error): void {
    for (const wait of this.#waits.splice(0)) wait.reject(error);
  }
}
