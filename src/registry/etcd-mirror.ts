/**
 * The keys below a prefix as they are known here, and the services that they make. Of a key whose value cannot be read
 * the last good value stands (R4). Where nothing is known of it, nothing that is missing is known to have left (R6).
 */
import type { KeyContents, Layout } from './etcd-layout.js';
import { Notes } from './notes.js';
import type { ListedCheck, Listing, Rejected, ReleaseMark, Row } from './registry.js';
import { collapseRows } from './rows.js';

export interface Contents {
  readonly services: readonly Listing[];
  readonly releases: readonly ReleaseMark[];
  readonly rejected: readonly Rejected[];
}

export class EtcdMirror {
  readonly #prefix: string;
  readonly #layout: Layout;
  readonly #keys = new Map<string, KeyContents>();
  /** Keys by service. */
  readonly #services = new Map<string, Set<string>>();
  /** Keys that are no rows: bad ones and release marks. */
  readonly #others = new Set<string>();
  /** Why the present value of a key cannot be read, where its last good one stands. */
  readonly #outdated = new Map<string, string>();
  /** The same where its last good one is not known. */
  readonly #lost = new Map<string, string>();

  /** @param prefix of all keys, with its slash */
  constructor(prefix: string, layout: Layout) {
    this.#prefix = prefix;
    this.#layout = layout;
  }

  get size(): number {
    return this.#keys.size;
  }

  /** Why nothing may be taken away on the word of this list (R6), when that is so: the key, and what is wrong with it. */
  get doubt(): string | undefined {
    const [first] = this.#lost;
    return first === undefined ? undefined : `${first[0]}: ${first[1]}`;
  }

  /** A key was written. Returns the services that it concerns. */
  put(key: string, value: string): string[] {
    return this.#take(key, value, this);
  }

  /** A key is in a list. @param before what was known at the list; undefined when nothing was */
  list(key: string, value: string, before: EtcdMirror | undefined): void {
    this.#take(key, value, before);
  }

  #take(key: string, value: string, known: EtcdMirror | undefined): string[] {
    const last = known === undefined ? undefined : known.#keys.get(key);
    const doubtful = known === undefined || known.#lost.has(key);
    const before = this.delete(key);
    let contents = this.#layout(key.slice(this.#prefix.length), value);
    if (contents.kind === 'bad' && contents.unreadable) {
      if (last?.kind === 'rows' || last?.kind === 'settings') {
        this.#outdated.set(key, contents.reason);
        contents = last;
      } else if (doubtful) this.#lost.set(key, contents.reason);
    }
    this.#keys.set(key, contents);
    if (contents.kind === 'bad' || contents.kind === 'release') this.#others.add(key);
    const service = serviceOf(contents);
    if (service === undefined) return before;
    let keys = this.#services.get(service);
    if (keys === undefined) this.#services.set(service, (keys = new Set()));
    keys.add(key);
    return [...before, service];
  }

  /** A key was deleted. Returns the services that it concerns. */
  delete(key: string): string[] {
    const contents = this.#keys.get(key);
    if (contents === undefined) return [];
    this.#keys.delete(key);
    this.#others.delete(key);
    this.#outdated.delete(key);
    this.#lost.delete(key);
    const service = serviceOf(contents);
    if (service === undefined) return [];
    const keys = this.#services.get(service);
    keys?.delete(key);
    if (keys?.size === 0) this.#services.delete(service);
    return [service];
  }

  /** Everything. */
  contents(): Contents {
    const services = [...this.#services.keys()].map((name) => this.#listing(name)!);
    return { services, ...this.#marks() };
  }

  /** These services as they are now, and which of them are gone. */
  changes(names: Iterable<string>): Contents & { readonly gone: readonly string[] } {
    const services: Listing[] = [];
    const gone: string[] = [];
    for (const name of new Set(names)) {
      const listing = this.#listing(name);
      if (listing === undefined) gone.push(name);
      else services.push(listing);
    }
    return { services, gone, ...this.#marks() };
  }

  #listing(name: string): Listing | undefined {
    const keys = this.#services.get(name);
    if (keys === undefined) return undefined;
    const entries: Extract<KeyContents, { kind: 'rows' }>[] = [];
    let check: ListedCheck | undefined;
    for (const key of keys) {
      const contents = this.#keys.get(key);
      if (contents?.kind === 'rows') entries.push(contents);
      else if (contents?.kind === 'settings') check = contents.check;
    }
    const rows: Row[] = collapseRows(inGroup(entries).flatMap((entry) => entry.rows));
    return check === undefined ? { name, rows } : { name, rows, check };
  }

  #marks(): { readonly releases: readonly ReleaseMark[]; readonly rejected: readonly Rejected[] } {
    const notes = new Notes();
    const releases: ReleaseMark[] = [];
    // What is in doubt comes first: it is named as the reason.
    for (const key of [...this.#lost.keys()].sort()) notes.add(key, this.#lost.get(key)!);
    for (const key of [...this.#outdated.keys()].sort()) {
      notes.add(key, `${this.#outdated.get(key)}; its last good value stands`);
    }
    for (const key of [...this.#others].sort()) {
      const contents = this.#keys.get(key);
      if (contents?.kind === 'release') releases.push({ service: contents.service, wall: contents.wall });
      else if (contents?.kind === 'bad' && !this.#lost.has(key)) notes.add(key, contents.reason);
    }
    return { releases, rejected: notes.list('other keys') };
  }
}

/** The service that a key is a part of. */
function serviceOf(contents: KeyContents): string | undefined {
  return contents.kind === 'release' || contents.kind === 'other' ? undefined : contents.service;
}

/**
 * SkyDNS groups: the records that lie highest give the group, and only those of it, or of none, count. Where they
 * disagree, or have none, all count.
 */
function inGroup<T extends Extract<KeyContents, { kind: 'rows' }>>(entries: readonly T[]): readonly T[] {
  const least = Math.min(...entries.map((entry) => entry.place?.depth ?? 0));
  const groups = new Set<string>();
  for (const { place } of entries) if (place !== undefined && place.depth === least) groups.add(place.group);
  groups.delete('');
  const [group] = groups;
  if (groups.size !== 1 || group === undefined) return entries;
  return entries.filter(({ place }) => place === undefined || place.group === '' || place.group === group);
}
