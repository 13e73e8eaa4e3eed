/** A table with zones, and a client that asks a responder over it and reads the replies with dns2. */
import dns2 from 'dns2';
import type { ServiceView, ZoneSpec } from '../src/answers/contract.js';
import { AnswerTable } from '../src/answers/table.js';
import { ZoneAnswers } from '../src/answers/zone-answers.js';
import { addressBytes } from '../src/dns/addresses.js';
import { TYPE } from '../src/dns/constants.js';
import { encodeQuery, type QueryOptions } from '../src/dns/encode-query.js';
import type { Row } from '../src/registry/registry.js';
import { COUNTER_WORDS } from '../src/server/counters.js';
import { Responder, type Transport } from '../src/server/respond.js';

export const SYNCED = { synced: true, serial: 1_700_000_000, statusText: ['fresh'] };

export function row(address: string, port: number, more: Partial<Row> = {}): Row {
  const defaults = { protocol: 'tcp', priority: 0, weight: 10, tags: [], state: 'passing' } as const;
  return { id: `${address}:${port}`, address, port, ...defaults, ...more };
}

/** A service of which every row is answered. */
export function service(label: string, rows: readonly Row[], more: Partial<ServiceView> = {}): ServiceView {
  return { label, rows, answer: (subset) => subset, order: 'weighted', status: 0, withheld: 0, ...more };
}

export function spec(name: string, more: Partial<ZoneSpec> = {}): ZoneSpec {
  const defaults = { naming: 'rfc2782', answerTtl: 2000, negativeTtl: 3000 } as const;
  return { name, ...defaults, allow: ['127.0.0.0/8', '::1/128'], nameservers: ['127.0.0.1', '::1'], ...more };
}

/** A reply as dns2 reads it, with the parts that tests look at. */
export interface Reply {
  readonly bytes: Uint8Array;
  readonly rcode: number;
  readonly flags: { qr: number; aa: number; tc: number; rd: number; ra: number; ad: number; cd: number };
  readonly questions: number;
  readonly answers: readonly Record_[];
  readonly authorities: readonly Record_[];
  /** Without the OPT record. */
  readonly additionals: readonly Record_[];
  readonly opt: { readonly payload: number; readonly dnssecOk: boolean; readonly version: number } | undefined;
  readonly opts: number;
  readonly ede: { readonly code: number; readonly text: string } | undefined;
  readonly errors: readonly unknown[];
}

export interface Record_ {
  readonly name: string;
  readonly type: number;
  readonly ttl: number;
  readonly address?: string;
  readonly priority?: number;
  readonly weight?: number;
  readonly port?: number;
  readonly target?: string;
  readonly ns?: string;
  readonly data?: unknown;
  readonly domain?: string;
  readonly primary?: string;
  readonly serial?: number;
  readonly minimum?: number;
}

export interface Ask extends Partial<Omit<QueryOptions, 'name' | 'type'>> {
  readonly from?: string;
  readonly listen?: number;
  readonly transport?: Transport;
}

export class World {
  readonly table = new AnswerTable({ seed: 0x5eed });
  readonly counters = new Uint32Array(new SharedArrayBuffer(COUNTER_WORDS * 4));
  readonly responder: Responder;
  readonly #out = new Uint8Array(65_535);

  constructor(maxUdp = 1232) {
    const reader = this.table.addReader();
    this.responder = new Responder(this.table.share(), this.counters, { maxUdp, tcpMax: 65_535, reader, seed: 7 });
    this.table.onChange = () => this.responder.update(this.table.share());
  }

  zone(name: string, services: readonly ServiceView[] = [], more: Partial<ZoneSpec> = {}, status = 0): ZoneAnswers {
    const zone = new ZoneAnswers(this.table, this.table.allocZone(), spec(name, more), status);
    for (const view of services) {
      zone.putService(view);
      for (const { address } of view.rows) zone.putTarget(address);
    }
    zone.setState(SYNCED);
    return zone;
  }

  /** The reply's bytes, empty when there is none. */
  send(query: Uint8Array, ask: Ask = {}): Uint8Array {
    const from = addressBytes(ask.from ?? '127.0.0.1')!;
    const peer = { family: from.length === 4 ? 4 : 6, bytes: from, offset: 0 } as const;
    const { listen = 0, transport = 'udp' } = ask;
    this.responder.beginBatch();
    const size = this.responder.respond(query, query.length, peer, listen, transport, this.#out);
    this.responder.endBatch();
    return this.#out.slice(0, size);
  }

  ask(name: string, type: keyof typeof TYPE | number, ask: Ask = {}): Reply {
    const number = typeof type === 'number' ? type : TYPE[type];
    return decode(this.send(encodeQuery({ id: 0x1234, ...ask, name, type: number })!, ask));
  }
}

export function decode(bytes: Uint8Array): Reply {
  // biome-ignore lint/suspicious/noExplicitAny: dns2 declares less than it gives.
  const packet = dns2.Packet.parse(Buffer.from(bytes)) as any;
  const { header } = packet;
  const opts = packet.additionals.filter(({ type }: Record_) => type === TYPE.OPT);
  const ede = opts[0]?.rdata?.find((option: { ednsCode: number }) => option.ednsCode === 15);
  return {
    bytes,
    rcode: header.rcode | ((opts[0]?.extendedRcode ?? 0) << 4),
    flags: header,
    questions: packet.questions.length,
    answers: packet.answers,
    authorities: packet.authorities,
    additionals: packet.additionals.filter(({ type }: Record_) => type !== TYPE.OPT),
    opt: opts[0] && { payload: opts[0].class, dnssecOk: opts[0].doFlag, version: opts[0].version },
    opts: opts.length,
    ede: ede && { code: ede.infoCode, text: ede.extraText },
    errors: packet.errors,
  };
}

/** Three endpoints of one port, the last a standby. */
export const WEB = [
  row('10.0.0.1', 8081, { portName: 'http', tags: ['blue'] }),
  row('10.0.0.2', 8082, { portName: 'http' }),
  row('10.0.0.3', 8083, { portName: 'http', priority: 10 }),
];

/** A zone with a service `web`, and one without endpoints. */
export function smallWorld(): World {
  const world = new World();
  world.zone('svc.internal', [service('web', WEB), service('empty', [])]);
  return world;
}

/** Endpoints of one port, each with an address of its own. */
export function endpoints(count: number): Row[] {
  return Array.from({ length: count }, (_, i) => row(`10.1.${i >> 8}.${i & 255}`, 1000 + i, { portName: 'http' }));
}
