/** A strict reader of DNS messages for tests, independent of the program's own code: what is not exactly right throws. */

export interface WireRecord {
  /** In lower case, without the last dot. */
  readonly owner: string;
  readonly type: number;
  readonly class: number;
  readonly ttl: number;
  readonly rdata: Buffer;
  /** Where it begins, and where its data begin. */
  readonly at: number;
  readonly rdataAt: number;
}

export interface WireMessage {
  readonly bytes: Buffer;
  readonly id: number;
  readonly opcode: number;
  readonly flags: {
    qr: boolean;
    aa: boolean;
    tc: boolean;
    rd: boolean;
    ra: boolean;
    z: boolean;
    ad: boolean;
    cd: boolean;
  };
  /** With the upper bits of the OPT record. */
  readonly rcode: number;
  /** The bytes of the question section. */
  readonly question: Buffer;
  readonly answers: readonly WireRecord[];
  readonly authorities: readonly WireRecord[];
  /** Without OPT. */
  readonly additionals: readonly WireRecord[];
  readonly opts: readonly WireOpt[];
  /** Of its extended errors. */
  readonly edes: readonly { readonly code: number; readonly text: string }[];
}

export interface WireOpt {
  readonly payload: number;
  readonly version: number;
  readonly dnssecOk: boolean;
  /** The other 15 bits beside DO. */
  readonly z: number;
  readonly options: readonly { readonly code: number; readonly data: Buffer }[];
}

/** Dotted text and the offset after it; pointers must point backwards. Labels are latin1. */
export function readName(bytes: Buffer, start: number): { readonly name: string; readonly end: number } {
  const labels: string[] = [];
  let end = -1;
  let least = start;
  let octets = 1;
  for (let at = start; ; ) {
    const size = bytes.readUInt8(at);
    if (size >= 0xc0) {
      const to = bytes.readUInt16BE(at) & 0x3fff;
      if (to >= least) throw new Error(`a pointer at ${at} to ${to} does not point back`);
      if (to < 12) throw new Error(`a pointer at ${at} into the header`);
      if (end < 0) end = at + 2;
      least = to;
      at = to;
      continue;
    }
    if (size > 63) throw new Error(`a label type ${size >> 6} at ${at}`);
    if (size === 0) return { name: labels.join('.'), end: end < 0 ? at + 1 : end };
    if (at + 1 + size > bytes.length) throw new Error(`a label at ${at} leaves the message`);
    labels.push(bytes.toString('latin1', at + 1, at + 1 + size).toLowerCase());
    octets += size + 1;
    if (octets > 255) throw new Error(`a name at ${start} of more than 255 octets`);
    at += size + 1;
  }
}

export function readMessage(message: Uint8Array): WireMessage {
  const bytes = Buffer.from(message);
  if (bytes.length < 12) throw new Error(`${bytes.length} bytes are no message`);
  const [high, low] = [bytes.readUInt8(2), bytes.readUInt8(3)];
  let at = 12;
  for (let i = bytes.readUInt16BE(4); i > 0; i--) at = readName(bytes, at).end + 4;
  const question = bytes.subarray(12, at);
  const opts: WireOpt[] = [];
  let extended = 0;
  const sections = [6, 8, 10].map((count) => {
    const records: WireRecord[] = [];
    for (let i = bytes.readUInt16BE(count); i > 0; i--) {
      const start = at;
      const { name, end } = readName(bytes, at);
      const rdataAt = end + 10;
      at = rdataAt + bytes.readUInt16BE(end + 8);
      if (at > bytes.length) throw new Error(`a record at ${start} leaves the message`);
      const record = {
        owner: name,
        type: bytes.readUInt16BE(end),
        class: bytes.readUInt16BE(end + 2),
        ttl: bytes.readUInt32BE(end + 4),
        rdata: bytes.subarray(rdataAt, at),
        at: start,
        rdataAt,
      };
      if (record.type !== 41) {
        records.push(record);
        continue;
      }
      if (count !== 10 || name !== '' || end !== start + 1) throw new Error('an OPT record where none may be');
      extended = record.ttl >>> 24;
      opts.push({
        payload: record.class,
        version: (record.ttl >>> 16) & 255,
        dnssecOk: (record.ttl & 0x8000) !== 0,
        z: record.ttl & 0x7fff,
        options: readOptions(record.rdata),
      });
    }
    return records;
  });
  if (at !== bytes.length) throw new Error(`${bytes.length - at} bytes behind the last record`);
  return {
    bytes,
    id: bytes.readUInt16BE(0),
    opcode: (high >> 3) & 15,
    flags: {
      qr: (high & 0x80) !== 0,
      aa: (high & 4) !== 0,
      tc: (high & 2) !== 0,
      rd: (high & 1) !== 0,
      ra: (low & 0x80) !== 0,
      z: (low & 0x40) !== 0,
      ad: (low & 0x20) !== 0,
      cd: (low & 0x10) !== 0,
    },
    rcode: (low & 15) | (extended << 4),
    question,
    answers: sections[0]!,
    authorities: sections[1]!,
    additionals: sections[2]!,
    opts,
    edes: opts
      .flatMap(({ options }) => options)
      .filter(({ code }) => code === 15)
      .map(({ data }) => ({ code: data.readUInt16BE(0), text: data.toString('utf8', 2) })),
  };
}

function readOptions(rdata: Buffer): { code: number; data: Buffer }[] {
  const options: { code: number; data: Buffer }[] = [];
  for (let at = 0; at < rdata.length; ) {
    const end = at + 4 + rdata.readUInt16BE(at + 2);
    if (end > rdata.length) throw new Error('an option leaves its record');
    options.push({ code: rdata.readUInt16BE(at), data: rdata.subarray(at + 4, end) });
    at = end;
  }
  return options;
}

/** The data of an SRV record. */
export function readSrv(message: WireMessage, { rdata, rdataAt }: WireRecord) {
  return {
    priority: rdata.readUInt16BE(0),
    weight: rdata.readUInt16BE(2),
    port: rdata.readUInt16BE(4),
    target: readName(message.bytes, rdataAt + 6).name,
  };
}
