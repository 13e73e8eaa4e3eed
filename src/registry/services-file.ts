/**
 * The format of the file registry:
 *
 *     services:
 *       NAME:
 *         portName, protocol, priority, weight   (for all its endpoints)
 *         check: { type, port, path, status }
 *         endpoints:
 *           - { id, address, port | ports: {portName: port}, protocol, portName, priority, weight, tags, zone, state, node }
 *     nodes: { NAME: ... }                       (see file-nodes.ts)
 *     release: { NAME | "*": ISO time }          (R9)
 *
 * The same in JSON; JSON is read a hundred times faster, at the price of line numbers in what is reported.
 * `services: {}` says that there are none. Keys that begin with `x-` are ignored, other unknown ones are reported.
 */
import { isUtf8 } from 'node:buffer';
import type { Cidr, FilterConfig, LimitsConfig } from '../config/types.js';
import { type Defaults, ENDPOINT_KEYS, isShortName, quote, readDefaults, readRows, SERVICE_KEYS } from './endpoint.js';
import { readNode } from './file-nodes.js';
import { isOthers } from './filter.js';
import { jsonEntries, NotTaken, parseText, textStart } from './json-entries.js';
import { readCheck } from './listed-check.js';
import { Notes } from './notes.js';
import { PackedListings, Packer } from './packed-listings.js';
import type { ListedCheck, ListedNode, Listing, Listings, Rejected, ReleaseMark, Row } from './registry.js';
import { AddressPolicy, collapseRows } from './rows.js';
import { entriesOf, Pairs } from './tree.js';

export interface ReadOptions {
  /** Its name in what is reported. */
  readonly file: string;
  readonly allowAddresses: readonly Cidr[];
  readonly limits: LimitsConfig;
  /** It has targets in the form of Prometheus, see `targets-file.ts`. */
  readonly targets?: TargetLabels;
  /** Of other services nothing is read. */
  readonly filter?: FilterConfig | undefined;
}

/** How targets become services. */
export interface TargetLabels {
  readonly serviceLabel: string;
  /** Of targets that have none. */
  readonly port?: number;
}

/** What one file says. Plain data: it may come from another thread. */
export interface FileContents {
  readonly services: Listings;
  /** Absent: it has none. */
  readonly nodes?: readonly ListedNode[];
  readonly releases: readonly ReleaseMark[];
  readonly rejected: readonly Rejected[];
  /** Set when a service's whole entry could not be read: then what is missing may be there all the same. */
  readonly doubt?: string;
}

export type ReadResult =
  | { readonly ok: true; readonly contents: FileContents }
  /** The file as a whole cannot be believed (R6). */
  | { readonly ok: false; readonly reason: string };

const FILE_ENDPOINT_KEYS = new Set([...ENDPOINT_KEYS, 'node']);

const EXPECTED = 'expected `services:` with a mapping from service names to their endpoints';

interface Service {
  readonly rows: Row[];
  check?: ListedCheck;
}

/** Over a limit: the whole list is not believable (R6, R31). */
class OverLimit extends Error {}

/**
 * Reads the text of a large JSON file service by service, and packs them. Undefined: it cannot be taken apart so, then
 * the tree of the whole says what is in it, or wrong with it.
 */
export function packServicesFile(bytes: Uint8Array, options: ReadOptions): ReadResult | undefined {
  try {
    return new Reader(options).readText(bytes);
  } catch (error) {
    if (error instanceof OverLimit) return { ok: false, reason: `${options.file}: ${error.message}` };
    if (error instanceof NotTaken) return undefined;
    throw error;
  }
}

/** Reads the tree of one file (see `tree.ts`). */
export function readServicesFile(root: unknown, options: ReadOptions): ReadResult {
  try {
    return new Reader(options).read(root);
  } catch (error) {
    if (error instanceof OverLimit) return { ok: false, reason: `${options.file}: ${error.message}` };
    throw error;
  }
}

class Reader {
  readonly #options: ReadOptions;
  readonly #policy: AddressPolicy;
  readonly #notes = new Notes();
  readonly #services = new Map<string, Service>();
  /** Services that were read and packed. */
  #taken = 0;
  readonly #releases: ReleaseMark[] = [];
  readonly #nodes = new Map<string, ListedNode>();
  #rows = 0;
  #doubt: string | undefined;

  constructor(options: ReadOptions) {
    this.#options = options;
    this.#policy = new AddressPolicy(options.allowAddresses, true);
  }

  read(root: unknown): ReadResult {
    const { file } = this.#options;
    const entries = entriesOf(root);
    if (entries === undefined) return { ok: false, reason: `${file}:1: ${EXPECTED}` };
    let services: readonly (readonly [string, unknown, number?])[] | undefined;
    for (const [key, value, line] of entries) {
      if (key === 'services') {
        const listed = entriesOf(value);
        if (listed === undefined) {
          const hint = value === null ? '; `services: {}` says that there are none' : '';
          return { ok: false, reason: `${this.#at(line)}: ${EXPECTED}${hint}` };
        }
        services = services === undefined ? listed : [...services, ...listed];
      } else if (key === 'release') {
        this.#readReleases(value, line);
      } else if (key === 'nodes') {
        this.#readNodes(value, line);
      } else if (!key.startsWith('x-')) {
        this.#notes.add(this.#at(line), `unknown key ${quote(key)}: expected services, nodes or release`);
      }
    }
    if (services === undefined) return { ok: false, reason: `${file}:1: ${EXPECTED}` };
    for (const [name, value, line] of services) this.#readService(name, value, line);
    return { ok: true, contents: this.#contents() };
  }

  readText(bytes: Uint8Array): ReadResult {
    if (!isUtf8(bytes)) throw new NotTaken();
    const entries = [...jsonEntries(bytes, textStart(bytes), bytes.length)];
    const services = entries.find(({ key }) => key === 'services');
    if (services === undefined || new Set(entries.map(({ key }) => key)).size < entries.length) throw new NotTaken();
    const head = entries.map((entry): [string, unknown] => {
      return [entry.key, entry === services ? {} : parseText(bytes, entry.start, entry.end)];
    });
    this.read(Object.fromEntries(head));
    const packer = new Packer();
    const names = new Set<string>();
    for (const { key, start, end } of jsonEntries(bytes, services.start, services.end)) {
      if (names.has(key)) throw new NotTaken();
      names.add(key);
      this.#readService(key, parseText(bytes, start, end), undefined);
      for (const listing of this.#listings()) packer.add(listing);
      this.#taken += this.#services.size;
      this.#services.clear();
    }
    return { ok: true, contents: { ...this.#contents(), services: new PackedListings(packer.end()) } };
  }

  #listings(): Listing[] {
    return [...this.#services].map(([name, service]): Listing => {
      const rows = collapseRows(service.rows);
      return service.check === undefined ? { name, rows } : { name, rows, check: service.check };
    });
  }

  #contents(): FileContents {
    const services = this.#listings();
    return {
      services,
      ...(this.#nodes.size === 0 ? {} : { nodes: [...this.#nodes.values()] }),
      releases: this.#releases,
      rejected: this.#notes.list(this.#options.file),
      ...(this.#doubt === undefined ? {} : { doubt: this.#doubt }),
    };
  }

  #at(line: number | undefined, path = ''): string {
    if (line !== undefined) return `${this.#options.file}:${line}`;
    return path === '' ? this.#options.file : `${this.#options.file}: ${path}`;
  }

  #readReleases(value: unknown, line: number | undefined): void {
    const entries = entriesOf(value);
    if (entries === undefined) {
      if (value !== null) this.#notes.add(this.#at(line), 'release must be a mapping from service names to times');
      return;
    }
    for (const [service, time, at] of entries) {
      const wall = typeof time === 'string' && /^\d{4}-\d\d-\d\d/.test(time) ? Date.parse(time) : Number.NaN;
      if (Number.isFinite(wall)) this.#releases.push({ service, wall });
      else
        this.#notes.add(
          this.#at(at, `release.${service}`),
          'a release mark must be a time such as 2031-05-04T09:30:00Z',
        );
    }
  }

  #readNodes(value: unknown, line: number | undefined): void {
    const entries = entriesOf(value);
    if (entries === undefined) {
      if (value !== null) this.#notes.add(this.#at(line), 'nodes must be a mapping from names to addresses');
      return;
    }
    for (const [name, item, at] of entries) {
      const node = readNode(name, item, this.#policy);
      if (typeof node === 'string') this.#notes.add(this.#at(at, `nodes.${name}`), node);
      else this.#nodes.set(name, node);
    }
  }

  #readService(name: string, value: unknown, line: number | undefined): void {
    if (isOthers(this.#options.filter, name)) return;
    const where = this.#at(line, `services.${name}`);
    if (!isShortName(name)) {
      this.#notes.add(where, `the name of a service must be a short text, not ${quote(name)}`);
      return;
    }
    const entries = entriesOf(value);
    if (entries === undefined) {
      this.#doubtful(where, `service ${quote(name)} must be a mapping with endpoints`);
      return;
    }
    let endpoints: unknown;
    let check: unknown = null;
    const settings: Record<string, unknown> = {};
    for (const [key, item, at] of entries) {
      if (key === 'endpoints') endpoints = item;
      else if (key === 'check') check = item;
      else if (SERVICE_KEYS.has(key)) settings[key] = item;
      else if (!key.startsWith('x-')) this.#notes.add(this.#at(at, `services.${name}`), `unknown key ${quote(key)}`);
    }
    const defaults = readDefaults(settings);
    if (typeof defaults === 'string') {
      this.#doubtful(where, `service ${quote(name)}: ${defaults}`);
      return;
    }
    if (!Array.isArray(endpoints)) {
      this.#doubtful(where, `service ${quote(name)}: endpoints must be a list; [] says that there are none`);
      return;
    }
    const service = this.#service(name, where);
    const listed = service.check === undefined ? this.#readCheck(check, where) : undefined;
    if (listed !== undefined) service.check = listed;
    const before = service.rows.length;
    endpoints.forEach((item: unknown, index) => {
      const at = this.#at(item instanceof Pairs ? item.line : line, `services.${name}.endpoints[${index}]`);
      this.#readEndpoint(service.rows, item, defaults, at);
      this.#bound(name, service.rows.length);
    });
    this.#rows += service.rows.length - before;
    if (endpoints.length > 0 && service.rows.length === before) {
      this.#doubtful(where, `service ${quote(name)}: none of its endpoints can be read`);
    }
  }

  #service(name: string, where: string): Service {
    const known = this.#services.get(name);
    if (known !== undefined) {
      this.#notes.add(where, `service ${quote(name)} is listed twice: the endpoints of both are taken`);
      return known;
    }
    if (this.#taken + this.#services.size >= this.#options.limits.maxServices) {
      throw new OverLimit(`more than ${this.#options.limits.maxServices} services (limits.maxServices)`);
    }
    const service: Service = { rows: [] };
    this.#services.set(name, service);
    return service;
  }

  #readCheck(value: unknown, where: string): ListedCheck | undefined {
    if (value === null) return undefined;
    const check = readCheck(value);
    if (typeof check !== 'string') return check;
    this.#notes.add(where, `${check}; the zone's own check is used`);
    return undefined;
  }

  #bound(name: string, rows: number): void {
    const { maxEndpoints, maxEndpointsPerService } = this.#options.limits;
    if (rows > maxEndpointsPerService) {
      throw new OverLimit(
        `service ${quote(name)} has more than ${maxEndpointsPerService} endpoints (limits.maxEndpointsPerService)`,
      );
    }
    if (this.#rows + rows > maxEndpoints) {
      throw new OverLimit(`more than ${maxEndpoints} endpoints (limits.maxEndpoints)`);
    }
  }

  /** A whole service is missing: nothing may be taken away on this file's word until it is mended. */
  #doubtful(where: string, reason: string): void {
    this.#notes.add(where, reason);
    this.#doubt ??= `${where}: ${reason}`;
  }

  #readEndpoint(rows: Row[], value: unknown, defaults: Defaults, where: string): void {
    const entries = entriesOf(value);
    if (entries === undefined) {
      this.#notes.add(where, 'an endpoint must be a mapping with address and port');
      return;
    }
    const fields: Record<string, unknown> = {};
    for (const [key, item, line] of entries) {
      if (FILE_ENDPOINT_KEYS.has(key)) {
        if (Object.hasOwn(fields, key))
          this.#notes.add(this.#at(line, where), `${key} is given twice: the last counts`);
        fields[key] = item;
      } else if (!key.startsWith('x-')) {
        this.#notes.add(line === undefined ? where : this.#at(line), `unknown key ${quote(key)} in an endpoint`);
      }
    }
    const node = typeof fields.node === 'string' ? this.#nodes.get(fields.node) : undefined;
    if (fields.node != null && node === undefined) {
      this.#notes.add(where, `node must be one of those under nodes, not ${quote(fields.node)}`);
      return;
    }
    const result = readRows(fields, defaults, this.#policy, node);
    if (typeof result === 'string') this.#notes.add(where, result);
    else rows.push(...result);
  }
}
