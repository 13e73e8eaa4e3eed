/** Who waits until a zone's snapshot on disk has what was said last (R29). */
interface Wait {
  readonly done: (problem: string | undefined) => void;
  /** The first delta that has it; undefined until that went to the writer. */
  from: number | undefined;
}

export class SnapshotWaits {
  readonly #waits = new Map<string, Wait[]>();

  /** Resolves when what the zone has by now is on disk; with a sentence when it could not be written. */
  wait(zone: string): Promise<string | undefined> {
    return new Promise((done) => {
      const wait = { done, from: undefined };
      const others = this.#waits.get(zone);
      if (others === undefined) this.#waits.set(zone, [wait]);
      else others.push(wait);
    });
  }

  /** All that the zone has went to the writer with the delta of this number, see `SnapshotDelta`. */
  sent(zone: string, number: number): void {
    for (const wait of this.#waits.get(zone) ?? []) wait.from ??= number;
  }

  /** What was sent up to this delta is on disk. */
  wrote(zone: string, number: number): void {
    this.#end(zone, ({ from }) => from !== undefined && from <= number, undefined);
  }

  /** The zone's file cannot be written, or there is no such zone any more. */
  failed(zone: string, problem: string): void {
    this.#end(zone, () => true, problem);
  }

  has(zone: string): boolean {
    return this.#waits.has(zone);
  }

  get zones(): string[] {
    return [...this.#waits.keys()];
  }

  #end(zone: string, isOver: (wait: Wait) => boolean, problem: string | undefined): void {
    const waits = this.#waits.get(zone);
    if (waits === undefined) return;
    const left = waits.filter((wait) => !isOver(wait));
    if (left.length === 0) this.#waits.delete(zone);
    else this.#waits.set(zone, left);
    for (const wait of waits) if (isOver(wait)) wait.done(problem);
  }
}
