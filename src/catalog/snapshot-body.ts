/**
 * The lines of a zone's snapshot, one a service, for the next writing. A large zone has a hundred megabytes of them, so
 * they are kept compressed, some hundred together; a line that is replaced stays in its pack until half of that is void.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib';

/** So many new lines make a pack; fewer stay as they are. */
const PACK_LINES = 256;

interface Pack {
  readonly names: readonly string[];
  /** Bytes of each line. */
  readonly lengths: Uint32Array;
  readonly deflated: Uint8Array;
  /** Lines that are not void. */
  alive: number;
}

/** What is to be written: stays as it is while the body goes on changing. */
export interface SnapshotLines {
  readonly count: number;
  readonly bytes: number;
  /** All lines, in some megabytes at a time at most. May be called again. */
  chunks(): Iterable<Uint8Array>;
}

export class SnapshotBody {
  /** Lines that are in no pack yet. */
  readonly #fresh = new Map<string, string>();
  readonly #packed = new Map<string, Pack>();
  readonly #packs = new Set<Pack>();

  put(name: string, json: string): void {
    this.#void(name);
    this.#fresh.set(name, `[${JSON.stringify(name)},${json}]\n`);
    if (this.#fresh.size >= PACK_LINES) this.#pack();
  }

  drop(name: string): void {
    this.#fresh.delete(name);
    this.#void(name);
  }

  clear(): void {
    this.#fresh.clear();
    this.#packed.clear();
    this.#packs.clear();
  }

  freeze(): SnapshotLines {
    const fresh = Buffer.from([...this.#fresh.values()].join(''));
    const packs = [...this.#packs].map((pack) => ({ pack, alive: this.#aliveOf(pack) }));
    let bytes = fresh.length;
    for (const { pack, alive } of packs) for (const [i, length] of pack.lengths.entries()) bytes += length * alive[i]!;
    return {
      count: this.#fresh.size + this.#packed.size,
      bytes,
      *chunks() {
        for (const { pack, alive } of packs) yield linesOf(pack, alive);
        yield fresh;
      },
    };
  }

  /** What a pack has of it counts no more. */
  #void(name: string): void {
    const pack = this.#packed.get(name);
    if (pack === undefined) return;
    this.#packed.delete(name);
    pack.alive--;
    if (pack.alive * 2 < pack.names.length) this.#unpack(pack);
  }

  #aliveOf(pack: Pack): Uint8Array {
    return Uint8Array.from(pack.names, (name) => (this.#packed.get(name) === pack ? 1 : 0));
  }

  #pack(): void {
    const lines = [...this.#fresh.values()];
    const names = [...this.#fresh.keys()];
    const lengths = Uint32Array.from(lines, (line) => Buffer.byteLength(line));
    const deflated = deflateRawSync(lines.join(''), { level: 1 });
    // zlib gives a part of a larger buffer, which would stay with it.
    const pack: Pack = { names, lengths, deflated: new Uint8Array(deflated), alive: names.length };
    for (const name of names) this.#packed.set(name, pack);
    this.#packs.add(pack);
    this.#fresh.clear();
  }

  #unpack(pack: Pack): void {
    const text = inflateRawSync(pack.deflated);
    this.#packs.delete(pack);
    let from = 0;
    for (const [i, name] of pack.names.entries()) {
      const to = from + pack.lengths[i]!;
      if (this.#packed.get(name) === pack) {
        this.#packed.delete(name);
        this.#fresh.set(name, text.toString('utf8', from, to));
      }
      from = to;
    }
  }
}

function linesOf(pack: Pack, alive: Uint8Array): Uint8Array {
  const text = inflateRawSync(pack.deflated);
  if (!alive.includes(0)) return text;
  const lines: Uint8Array[] = [];
  let from = 0;
  for (const [i, is] of alive.entries()) {
    const to = from + pack.lengths[i]!;
    if (is === 1) lines.push(text.subarray(from, to));
    from = to;
  }
  return Buffer.concat(lines);
}
