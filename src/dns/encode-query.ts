/** Makes queries, for clients and tests: with every flag and option that a client may send. */
import { ByteWriter } from './byte-writer.js';
import { CLASS, TYPE } from './constants.js';
import { nameToWire } from './names.js';

export interface QueryOptions {
  readonly id?: number;
  /** Dotted text or wire form. */
  readonly name: string | Uint8Array;
  readonly type: number;
  readonly class?: number;
  /** Default true. */
  readonly recursionDesired?: boolean;
  readonly checkingDisabled?: boolean;
  /** Absent: no OPT record. */
  readonly edns?: {
    readonly payload?: number;
    readonly version?: number;
    readonly dnssecOk?: boolean;
    readonly options?: readonly { readonly code: number; readonly data: Uint8Array }[];
  };
}

/** The message, or undefined when the name has no wire form. */
export function encodeQuery(query: QueryOptions): Uint8Array | undefined {
  const name = typeof query.name === 'string' ? nameToWire(query.name) : query.name;
  if (name === undefined) return undefined;
  const out = new ByteWriter(512);
  const flags = (query.recursionDesired === false ? 0 : 0x0100) | (query.checkingDisabled ? 0x0010 : 0);
  out
    .u16(query.id ?? 0)
    .u16(flags)
    .u16(1)
    .u16(0)
    .u16(0);
  out.u16(query.edns === undefined ? 0 : 1);
  out
    .bytes(name)
    .u16(query.type)
    .u16(query.class ?? CLASS.IN);
  if (query.edns === undefined) return out.copy();
  const { payload = 1232, version = 0, dnssecOk = false, options = [] } = query.edns;
  out
    .u8(0)
    .u16(TYPE.OPT)
    .u16(payload)
    .u8(0)
    .u8(version)
    .u16(dnssecOk ? 0x8000 : 0);
  out.u16(options.reduce((sum, option) => sum + 4 + option.data.length, 0));
  for (const option of options) out.u16(option.code).u16(option.data.length).bytes(option.data);
  return out.copy();
}
