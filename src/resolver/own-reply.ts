/** Asks the responder as any client would, so that what is told of an answer is what is given. */
import { type Form, NO_FORM } from '../answers/naming/form.js';
import { formOf } from '../answers/naming/form-of.js';
import type { SharedZone } from '../answers/shared.js';
import type { AnswerTable } from '../answers/table.js';
import { HEADER_BYTES, OPTION_EDE, RCODE, TYPE } from '../dns/constants.js';
import { encodeQuery } from '../dns/encode-query.js';
import { wireToName } from '../dns/names.js';
import { Query } from '../dns/query.js';
import { COUNTER_WORDS } from '../server/counters.js';
import { NEEDS_CONTROL, Responder } from '../server/respond.js';

export type Outcome = 'answer' | 'nodata' | 'nxdomain' | 'servfail' | 'refused' | 'formerr' | 'forwarded';

export interface OwnQuestion {
  readonly name: string;
  readonly type: number;
  /** 4 or 16 bytes: the client. */
  readonly from: Uint8Array;
  /** Index of the listen address that is asked. */
  readonly listen: number;
}

export interface OwnReply {
  readonly outcome: Outcome;
  /** Of the answer's records; undefined without any. */
  readonly type: number | undefined;
  /** What a PTR record says. */
  readonly pointer: string | undefined;
  readonly ede: { readonly code: number; readonly text: string } | undefined;
}

const OUTCOMES: Readonly<Record<number, Outcome>> = {
  [RCODE.FORMERR]: 'formerr',
  [RCODE.SERVFAIL]: 'servfail',
  [RCODE.NXDOMAIN]: 'nxdomain',
  [RCODE.REFUSED]: 'refused',
};
const MAX_REPLY = 65_535;
/** Type, class, TTL and length of a record. */
const RECORD_FIXED = 10;
const POINTER = 0xc0;

/** The reply over TCP, which has room for everything. Undefined when the name has no wire form. */
export function askOwn(table: AnswerTable, { name, type, from, listen }: OwnQuestion): OwnReply | undefined {
  const query = encodeQuery({ name, type, edns: {} });
  if (query === undefined) return undefined;
  const reader = table.addReader();
  try {
    const limits = { maxUdp: MAX_REPLY, tcpMax: MAX_REPLY, reader, seed: 0 };
    // Marks of what is asked go nowhere: a look is no client's interest (R17).
    const handle = { ...table.share(), asked: new SharedArrayBuffer(1) };
    const responder = new Responder(handle, new Uint32Array(COUNTER_WORDS), limits);
    const peer = { family: from.length === 4 ? (4 as const) : (6 as const), bytes: from, offset: 0 };
    const out = new Uint8Array(MAX_REPLY);
    responder.beginBatch();
    const length = responder.respond(query, query.length, peer, listen, 'tcp', out);
    responder.endBatch();
    if (length === NEEDS_CONTROL) return { outcome: 'forwarded', type: undefined, pointer: undefined, ede: undefined };
    return read(Buffer.from(out.buffer, 0, length));
  } finally {
    table.removeReader(reader);
  }
}

/** The form of a name in a zone of `zoneLabels` labels (R25). */
export function formBelow(
  zone: Pick<SharedZone, 'naming' | 'datacenters' | 'looksUp'>,
  name: string,
  zoneLabels: number,
): Form {
  const bytes = encodeQuery({ name, type: TYPE.A });
  const query = new Query();
  if (bytes === undefined || query.parse(bytes, bytes.length) !== 0) return NO_FORM;
  return formOf(zone, bytes, query.labels, query.labelCount - zoneLabels);
}

function read(reply: Buffer): OwnReply {
  const rcode = reply[3]! & 15;
  const answers = reply.readUInt16BE(6);
  const records = answers + reply.readUInt16BE(8) + reply.readUInt16BE(10);
  let at = afterName(reply, HEADER_BYTES) + 4;
  let type: number | undefined;
  let pointer: string | undefined;
  let ede: OwnReply['ede'];
  for (let i = 0; i < records; i++) {
    const fixed = afterName(reply, at);
    const ofRecord = reply.readUInt16BE(fixed);
    const end = fixed + RECORD_FIXED + reply.readUInt16BE(fixed + 8);
    if (i === 0 && answers > 0) {
      type = ofRecord;
      if (type === TYPE.PTR) pointer = wireToName(reply, fixed + RECORD_FIXED);
    }
    if (ofRecord === TYPE.OPT) ede = edeOf(reply.subarray(fixed + RECORD_FIXED, end));
    at = end;
  }
  return { outcome: OUTCOMES[rcode] ?? (answers > 0 ? 'answer' : 'nodata'), type, pointer, ede };
}

function afterName(bytes: Buffer, start: number): number {
  let at = start;
  for (let size = bytes[at]!; size !== 0; size = bytes[at]!) {
    if (size >= POINTER) return at + 2;
    at += size + 1;
  }
  return at + 1;
}

/** RFC 8914 s.2, of options that we wrote ourselves: there is one or none. */
function edeOf(options: Buffer): OwnReply['ede'] {
  if (options.length < 6 || options.readUInt16BE(0) !== OPTION_EDE) return undefined;
  return { code: options.readUInt16BE(4), text: options.toString('utf8', 6, 4 + options.readUInt16BE(2)) };
}
