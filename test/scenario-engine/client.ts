/** The client's side of a scenario: question text to wire bytes, wire bytes to an answer that can be compared. */
import { Packet } from 'dns2';

export const TYPES: Readonly<Record<string, number>> = {
  A: 1,
  NS: 2,
  SOA: 6,
  PTR: 12,
  TXT: 16,
  AAAA: 28,
  SRV: 33,
  DS: 43,
  HTTPS: 65,
  AXFR: 252,
  ANY: 255,
  TYPE1000: 1000,
};
const RCODES: Readonly<Record<number, string>> = {
  0: 'NOERROR',
  1: 'FORMERR',
  2: 'SERVFAIL',
  3: 'NXDOMAIN',
  4: 'NOTIMP',
  5: 'REFUSED',
  16: 'BADVERS',
};

type Resource = Packet['answers'][number];

/** One question with the way it is asked. */
export interface Question {
  /** Absolute, without the last dot, in the client's case. */
  readonly name: string;
  readonly type: string;
  /** EDNS payload size, or null for a query without OPT. */
  readonly bufsize: number | null;
  readonly tcp: boolean;
  readonly client: string;
  readonly rd: boolean;
}

export interface Answer {
  readonly rcode: string;
  /** Of `aa tc ra ad`, those that are set. */
  readonly flags: readonly string[];
  readonly ede: readonly { readonly code: number; readonly text: string }[];
  readonly answers: readonly Resource[];
  readonly authorities: readonly Resource[];
  /** Without OPT. */
  readonly additionals: readonly Resource[];
  readonly bytes: number;
}

/**
 * `orders`, `orders A`, `_orders._tcp SRV`, `nope.example. A`: a name without a dot at its end is below `zone`.
 * Type SRV unless said. Further words as dig has them: `+tcp`, `+noedns`, `+bufsize=512`, `+rd`, `@10.0.0.1` (who asks).
 */
export function parseQuestion(text: string, zone: string): Question {
  const words = text.split(/\s+/).filter(Boolean);
  const [first = '@', ...rest] = words;
  let type = 'SRV';
  let bufsize: number | null = 1232;
  let tcp = false;
  let rd = false;
  let client = '127.0.0.1';
  for (const word of rest) {
    const size = /^\+bufsize=(\d+)$/.exec(word);
    if (word in TYPES) type = word;
    else if (word === '+tcp') tcp = true;
    else if (word === '+noedns') bufsize = null;
    else if (word === '+rd') rd = true;
    else if (size) bufsize = Number(size[1]);
    else if (word.startsWith('@')) client = word.slice(1);
    else throw new Error(`"${word}" in "${text}" is not understood`);
  }
  const name = first === '@' ? zone : first.endsWith('.') ? first.slice(0, -1) : `${first}.${zone}`;
  return { name, type, bufsize, tcp, client, rd };
}

export function encodeQuery(id: number, question: Question): Uint8Array {
  const labels = question.name === '' ? [] : question.name.split('.');
  const name = Buffer.concat([
    ...labels.map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label, 'latin1')])),
    Buffer.from([0]),
  ]);
  const head = Buffer.alloc(12);
  head.writeUInt16BE(id, 0);
  head.writeUInt16BE(question.rd ? 0x0100 : 0, 2);
  head.writeUInt16BE(1, 4);
  head.writeUInt16BE(question.bufsize === null ? 0 : 1, 10);
  const tail = Buffer.alloc(4);
  tail.writeUInt16BE(TYPES[question.type] ?? 0, 0);
  tail.writeUInt16BE(1, 2);
  const opt = Buffer.alloc(question.bufsize === null ? 0 : 11);
  if (question.bufsize !== null) {
    opt.writeUInt16BE(41, 1);
    opt.writeUInt16BE(question.bufsize, 3);
  }
  return Buffer.concat([head, name, tail, opt]);
}

/** Decodes a reply and holds it to what every reply owes its query, whatever the scenario is about. Throws with what is wrong. */
export function decodeAnswer(query: Uint8Array, question: Question, reply: Uint8Array): Answer {
  const packet = Packet.parse(Buffer.from(reply));
  const owed = (holds: boolean, what: string): void => {
    if (!holds) throw new Error(`malformed reply: ${what}\n${Buffer.from(reply).toString('hex')}`);
  };
  owed(packet.errors.length === 0, packet.errors.map(String).join('; '));
  owed(packet.header.qr === 1, 'QR is not set');
  owed(packet.header.id === Buffer.from(query).readUInt16BE(0), 'another id');
  const questionEnd = 12 + question.name.length + (question.name === '' ? 1 : 2) + 4;
  owed(
    Buffer.from(reply).subarray(12, questionEnd).equals(Buffer.from(query).subarray(12, questionEnd)),
    'the question is not the one that was asked, byte for byte',
  );
  const opts = packet.additionals.filter((rr) => rr.type === 41);
  owed(opts.length === (question.bufsize === null ? 0 : 1), `${opts.length} OPT records (RFC 6891 s.6.1.1, s.7)`);
  const opt = opts[0] as unknown as
    | { extendedRcode: number; rdata: { ednsCode: number; infoCode?: number; extraText?: string }[] }
    | undefined;
  const limit = question.tcp ? 65_535 : Math.min(Math.max(question.bufsize ?? 512, 512), 1232);
  owed(reply.length <= limit, `${reply.length} bytes where ${limit} fit`);

  const answers = packet.answers;
  const authorities = packet.authorities;
  const additionals = packet.additionals.filter((rr) => rr.type !== 41);
  const texts = answers.map(recordText);
  owed(new Set(texts).size === texts.length, `the same record twice: ${texts.join(' | ')} (RFC 2181 s.5)`);
  owed(new Set(answers.map((rr) => rr.ttl)).size <= 1, 'more than one TTL in an RRset (RFC 2181 s.5.2)');
  const targets = answers.filter((rr) => rr.type === 33).map((rr) => String(rr.target).toLowerCase());
  for (const rr of additionals) {
    owed(targets.includes(rr.name.toLowerCase()), `additional ${rr.name} is no target of the answer`);
  }
  const rcode = packet.header.rcode + ((opt?.extendedRcode ?? 0) << 4);
  const soa = authorities.filter((rr) => rr.type === 6).length;
  const negative = packet.header.tc === 0 && answers.length === 0 && (rcode === 0 || rcode === 3);
  owed(soa === (negative ? 1 : 0), `${soa} SOA records in authority (RFC 2308 s.3)`);
  const { aa, tc, ra, ad } = packet.header as typeof packet.header & { ad: 0 | 1 };
  return {
    rcode: RCODES[rcode] ?? `RCODE${rcode}`,
    flags: Object.entries({ aa, tc, ra, ad })
      .filter(([, set]) => set)
      .map(([flag]) => flag),
    ede: (opt?.rdata ?? [])
      .filter((option) => option.ednsCode === 15)
      .map((option) => ({ code: option.infoCode ?? 0, text: option.extraText ?? '' })),
    answers,
    authorities,
    additionals,
    bytes: reply.length,
  };
}

/** A record in presentation form, without name and TTL: `SRV 0 1 8080 10-0-1-1.ip.svc.test`. */
export function recordText(rr: Resource): string {
  const any = rr as unknown as Record<string, unknown>;
  switch (rr.type) {
    case 1:
      return `A ${any.address}`;
    case 28:
      return `AAAA ${canonical(String(any.address))}`;
    case 2:
      return `NS ${any.ns}`;
    case 12:
      return `PTR ${any.domain}`;
    case 6:
      return `SOA ${any.primary} ${any.admin} minimum=${any.minimum}`;
    case 16:
      return `TXT ${[any.data].flat().map(String).join(' ')}`;
    case 33:
      return `SRV ${any.priority} ${any.weight} ${any.port} ${any.target}`;
    default:
      return `TYPE${rr.type}`;
  }
}

/** IPv6 as RFC 5952 writes it; anything else as it is. */
export function canonical(address: string): string {
  return address.includes(':') ? new URL(`http://[${address}]`).hostname.slice(1, -1) : address;
}
