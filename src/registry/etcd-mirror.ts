/** The keys below a prefix as they are known here, and the services that they make. */
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

  /** @param prefix of all keys, with its slash */
  constructor(prefix: string, layout: Layout) {
    this.#prefix = prefix;
    this.#layout = layout;
  }

  get size(): number {
    return this.#keys.size;
  }

  /** A key was written. Returns the services that it concerns. */
  put(key: string, value: string): string[] {
    const before = this.delete(key);
    const contents = this.#layout(key.slice(this.#prefix.length), value);
    this.#keys.set(key, contents);
    if (contents.kind === 'bad' || contents.kind === 'release') this.#others.add(key);
    if (contents.kind === 'release' || contents.service === undefined) return before;
    let keys = this.#services.get(contents.service);
    if (keys === undefined) this.#services.set(contents.service, (keys = new Set()));
    keys.add(key);
    return [...before, contents.service];
  }

  /** A key was deleted. Returns the services that it concerns. */
  delete(key: string): string[] {
    const contents = this.#keys.get(key);
    if (contents === undefined) return [];
    this.#keys.delete(key);
    this.#others.delete(key);
    if (contents.kind === 'release' || contents.service === undefined) return [];
    const keys = this.#services.get(contents.service);
    keys?.delete(key);
    if (keys?.size === 0) this.#services.delete(contents.service);
    return [contents.service];
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
    for (const key of [...this.#others].sort()) {
      const contents = this.#keys.get(key);
      if (contents?.kind === 'release') releases.push({ service: contents.service, wall: contents.wall });
      else if (contents?.kind === 'bad') notes.add(key, contents.reason);
    }
    return { releases, rejected: notes.list('other keys') };
  }
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
