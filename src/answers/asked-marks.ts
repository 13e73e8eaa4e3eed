/**
 * Which services are asked (R17): a byte each, set by the threads that answer and taken back by the control thread.
 * Readers store only where no mark is yet, so a name that is asked all the time costs them one load.
 */
export class AskedMarks {
  shared = new SharedArrayBuffer(1_024);
  #bytes = new Uint8Array(this.shared);
  #words = new Int32Array(this.shared);
  readonly #free: number[] = [];
  /** Slot 0 is of names whose asking nobody wants to know; it has a mark for ever. */
  #next = 1;

  constructor() {
    this.#bytes[0] = 1;
  }

  /** A slot, without a mark; `grown`: the memory is another one, and readers of the old one mark in vain. */
  alloc(): { readonly slot: number; readonly grown: boolean } {
    const slot = this.#free.pop() ?? this.#next++;
    const grown = slot >= this.#bytes.length;
    if (grown) this.#grow();
    this.#bytes[slot] = 0;
    return { slot, grown };
  }

  /** Names that still carry the slot do no harm: at worst its next owner seems to be asked once. */
  free(slot: number): void {
    this.#free.push(slot);
  }

  /** The slots that have been asked since the last call. A mark that is set meanwhile counts now or the next time. */
  take(): number[] {
    const slots: number[] = [];
    const words = (this.#next + 3) >>> 2;
    for (let word = 0; word < words; word++) {
      if (this.#words[word] === 0) continue;
      for (let slot = word * 4; slot < word * 4 + 4; slot++) {
        if (slot === 0 || this.#bytes[slot] === 0) continue;
        this.#bytes[slot] = 0;
        slots.push(slot);
      }
    }
    return slots;
  }

  #grow(): void {
    this.shared = new SharedArrayBuffer(this.#bytes.length * 2);
    const bytes = new Uint8Array(this.shared);
    bytes.set(this.#bytes);
    this.#bytes = bytes;
    this.#words = new Int32Array(this.shared);
  }
}
