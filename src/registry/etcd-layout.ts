/** How services lie in the keys of etcd. A layout reads one key; `etcd-mirror.ts` puts keys together. */
import type { ListedCheck, Row } from './registry.js';

/** What one key below the prefix says. */
export type KeyContents =
  | { readonly kind: 'rows'; readonly service: string; readonly rows: readonly Row[]; readonly place?: Place }
  /** Settings of a service, which is listed by them alone. */
  | { readonly kind: 'settings'; readonly service: string; readonly check?: ListedCheck }
  | { readonly kind: 'release'; readonly service: string; readonly wall: number }
  /** Of somebody else who shares the prefix. */
  | { readonly kind: 'other' }
  | {
      readonly kind: 'bad';
      readonly reason: string;
      readonly service?: string;
      /** It does not even say anything wrong: what the key held before may be meant still. */
      readonly unreadable?: true;
    };

/** Where a record of SkyDNS lies, which decides about groups. */
export interface Place {
  readonly depth: number;
  readonly group: string;
}

/** Reads a key, given without the prefix and its slash. */
export type Layout = (key: string, value: string) => KeyContents;

/** Marks lie below this, in either layout (R9). */
const RELEASE = '.release/';
/** In place of a service: a mark of the whole zone. */
const ALL = '*';
/** Such as `2031-05-04T09:30:00Z`. */
const ISO_DATE = /^\d{4}-\d\d-\d\d/;

/** The layout of a part of the services: whatever the others have, right or wrong, is theirs. */
export function ofPart(layout: Layout, wanted: (service: string) => boolean): Layout {
  return (key, value) => {
    const service = key.startsWith(RELEASE) ? key.slice(RELEASE.length) : key.split('/', 1)[0]!;
    return service === '' || service === ALL || wanted(service) ? layout(key, value) : { kind: 'other' };
  };
}

/** A release mark, undefined when the key is none. */
export function readRelease(key: string, value: string): KeyContents | undefined {
  if (!key.startsWith(RELEASE)) return undefined;
  const service = key.slice(RELEASE.length);
  const time = value.trim().replace(/^"(.*)"$/, '$1');
  const wall = ISO_DATE.test(time) ? Date.parse(time) : Number.NaN;
  if (service !== '' && Number.isFinite(wall)) return { kind: 'release', service, wall };
  return { kind: 'bad', reason: 'a release mark must be a time such as 2031-05-04T09:30:00Z' };
}

/** The object in a value, or what is wrong with it. */
export function readObject(value: string): Record<string, unknown> | string {
  let parsed: unknown;
  try {
    parsed = JSON.parse(value);
  } catch {
    return 'the value is not JSON';
  }
  if (typeof parsed === 'object' && parsed !== null && !Array.isArray(parsed)) return parsed as Record<string, unknown>;
  return 'the value is not a JSON object';
}
