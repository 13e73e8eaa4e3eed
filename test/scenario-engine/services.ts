/** The short form in which scenarios write what a registry lists, and the ids that expectations use. */
import {
  type ListedCheck,
  type ListedNode,
  type Listing,
  type Protocol,
  type Row,
  type RowState,
  rowKey,
} from '../../src/registry/registry.js';

/**
 * What a scenario writes for one service: endpoints by number (`3`, `"1-10"`), or a list of items such as
 * `"4-6 critical"`, `"9 priority=10 weight=0 tag=blue"`, or a mapping with `endpoints` and `check`.
 */
export type ServiceText =
  | number
  | string
  | readonly (number | string)[]
  | { readonly endpoints: number | string | readonly (number | string)[]; readonly check?: CheckText | undefined };

type CheckText = { readonly [K in keyof ListedCheck]?: ListedCheck[K] | undefined };

const STATES: readonly string[] = ['passing', 'warning', 'critical', 'draining'];

/** `1-3 7` is 1, 2, 3, 7. */
export function numbers(text: string | number): number[] {
  if (typeof text === 'number') return [text];
  const found: number[] = [];
  for (const part of text.split(/[\s,]+/).filter(Boolean)) {
    const range = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (!range) throw new Error(`"${part}" is neither a number nor a range such as 1-10`);
    const from = Number(range[1]);
    for (let n = from; n <= Number(range[2] ?? from); n++) found.push(n);
  }
  return found;
}

/** Gives each service a /24 of its own, in the order in which a scenario names them, and remembers who has which address. */
export class Addresses {
  readonly #services = new Map<string, number>();
  readonly #ids = new Map<string, Set<string>>();
  readonly #rows = new Map<string, Row>();

  /** `10.0.K.N`, where K counts the services. */
  addressOf(service: string, n: number): string {
    let k = this.#services.get(service);
    if (k === undefined) this.#services.set(service, (k = this.#services.size + 1));
    return `10.${Math.floor(n / 250)}.${k}.${n % 250}`;
  }

  remember(row: Row): void {
    this.#rows.set(row.id, row);
    for (const key of [`${row.address}:${row.port}`, row.address]) {
      const ids = this.#ids.get(key);
      if (ids) ids.add(row.id);
      else this.#ids.set(key, new Set([row.id]));
    }
  }

  /** Whether it was ever listed. */
  has(id: string): boolean {
    return this.#rows.has(id);
  }

  /** The latest row under this id. */
  row(id: string): Row {
    const row = this.#rows.get(id);
    if (!row) throw new Error(`no endpoint "${id}" was listed so far`);
    return row;
  }

  /** Who was ever listed at `ADDRESS:PORT`, or at `ADDRESS`. */
  idsAt(place: string): string[] {
    return [...(this.#ids.get(place) ?? [])];
  }
}

function parseItem(service: string, item: number | string, addresses: Addresses): Row[] {
  const words = String(item).split(/\s+/).filter(Boolean);
  const counted: number[] = [];
  let state: RowState = 'passing';
  let protocol: Protocol = 'tcp';
  const tags: string[] = [];
  const options: Record<string, string> = {};
  for (const word of words) {
    if (/^\d+(-\d+)?$/.test(word)) counted.push(...numbers(word));
    else if (STATES.includes(word)) state = word as RowState;
    else if (word === 'udp' || word === 'tcp') protocol = word;
    else {
      const option = /^(id|at|port|portName|priority|weight|tag|zone|node|dc)=(.+)$/.exec(word);
      if (!option) throw new Error(`"${word}" in "${item}" is not understood`);
      if (option[1] === 'tag') tags.push(option[2] ?? '');
      else options[option[1] ?? ''] = option[2] ?? '';
    }
  }
  if (counted.length === 0) throw new Error(`"${item}" names no endpoint: begin with a number or a range`);
  return counted.map((n) => {
    const address = options.at ?? addresses.addressOf(service, n);
    const row: Row = {
      id: options.id ?? `${service}-${n}`,
      address,
      port: Number(options.port ?? 8080),
      protocol,
      ...(options.portName === undefined ? {} : { portName: options.portName }),
      priority: Number(options.priority ?? 0),
      weight: Number(options.weight ?? 1),
      tags: [...new Set(tags)].sort(),
      ...(options.zone === undefined ? {} : { zone: options.zone }),
      state,
      ...(options.node === undefined ? {} : onNode(options.node, address, options.dc)),
    };
    addresses.remember(row);
    return row;
  });
}

/** `web-1` is a node that has the row's address, `web-1/10.9.0.1` one with another, so that the row has its own. */
function onNode(text: string, address: string, dc: string | undefined): Pick<Row, 'node' | 'atNode'> {
  const [name = '', own] = text.split('/');
  const node = { name, address: own ?? address, ...(dc === undefined ? {} : { datacenter: dc }) };
  return own === undefined ? { node, atNode: true } : { node };
}

/** `{ idle: 10.9.0.1 }`. */
export function parseNodes(nodes: Readonly<Record<string, string>>): ListedNode[] {
  return Object.entries(nodes).map(([name, address]) => ({ name, address }));
}

export function parseService(service: string, text: ServiceText, addresses: Addresses): Listing {
  const long =
    typeof text === 'object' && !Array.isArray(text)
      ? (text as { endpoints: ServiceText; check?: CheckText | undefined })
      : null;
  const body = (long ? long.endpoints : text) as number | string | readonly (number | string)[];
  const items = Array.isArray(body) ? body : [body];
  const rows = items.flatMap((item) => parseItem(service, item, addresses));
  const keys = new Set(rows.map(rowKey));
  if (keys.size !== rows.length) throw new Error(`${service}: two endpoints at one address and port`);
  return { name: service, rows, ...(long?.check ? { check: long.check as ListedCheck } : {}) };
}

/** `orders-*` as a test on ids and on `ADDRESS:PORT`. */
export function globTest(glob: string): (name: string) => boolean {
  const pattern = glob.replace(/[.+^${}()|[\]\\]/g, '\\$&').replaceAll('*', '.*');
  const whole = new RegExp(`^${pattern}$`);
  return (name) => whole.test(name);
}

/** The ids that an expectation means: numbers of `service`, or ids as they are; `none` is nobody. */
export function ids(text: string | number | readonly (string | number)[], service: string | undefined): string[] {
  if (text === 'none') return [];
  const items = Array.isArray(text) ? text : [text as string | number];
  return items.flatMap((item) => {
    if (/^[\d\s,-]+$/.test(String(item))) {
      if (service === undefined) throw new Error(`"${item}": which service? write ids such as orders-1`);
      return numbers(item).map((n) => `${service}-${n}`);
    }
    return [String(item)];
  });
}
