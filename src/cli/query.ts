/** `holdfast query`: asks a name server, our own by default, and prints what it said as dig would. */
import dns2, { type Packet as ParsedPacket } from 'dns2';
import { askDns, NoReply, type Reply } from '../ask/dns.js';
import { canonicalAddress, showListen } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import { typeName } from '../dns/type-names.js';
import { plain, type Style, styleFor, table } from '../system/terminal.js';
import { findConfig } from './find-config.js';
import { complain, EXIT_FAILED, EXIT_OK, EXIT_USAGE, print } from './output.js';
import { readQuestion } from './question.js';

const { Packet } = dns2;
type Resource = ParsedPacket['answers'][number];

export interface QueryOptions {
  readonly config: string;
  readonly server?: string;
  readonly port?: number;
  readonly tcp?: boolean;
  readonly json?: boolean;
  readonly short?: boolean;
  readonly timeoutMs: number;
}

export async function query(name: string, type: string | undefined, options: QueryOptions): Promise<number> {
  const question = readQuestion(name, type);
  if (!question) return EXIT_USAGE;
  const server = await findServer(options);
  if (!server) return EXIT_USAGE;
  try {
    const reply = await askDns(
      { name, type: question.typeNumber },
      { server, tcp: options.tcp === true, timeoutMs: options.timeoutMs },
    );
    const document = describeReply(reply, server);
    if (options.json) print(JSON.stringify(document, null, 2));
    else if (options.short) for (const record of document.answer) print(record.data);
    else print(showReply(document, styleFor()));
    return document.status === 'NOERROR' ? EXIT_OK : EXIT_FAILED;
  } catch (error) {
    if (!(error instanceof NoReply)) throw error;
    complain(`${showListen(server)}: ${error.message}`);
    return EXIT_FAILED;
  }
}

/** The configuration is only asked where the command line leaves something open. */
async function findServer(options: QueryOptions): Promise<ListenAddress | undefined> {
  if (options.server !== undefined) {
    const address = canonicalAddress(options.server);
    if (address !== undefined) return { address, port: options.port ?? 53 };
    complain(`--server: expected an IP address, got ${plain(options.server)}`);
    return undefined;
  }
  const listen = (await findConfig(options.config))?.listen[0];
  if (!listen) return undefined;
  const wildcard: Record<string, string> = { '0.0.0.0': '127.0.0.1', '::': '::1' };
  return { address: wildcard[listen.address] ?? listen.address, port: options.port ?? listen.port };
}

interface RecordDocument {
  readonly name: string;
  readonly ttl: number;
  readonly type: string;
  readonly data: string;
}

interface ReplyDocument {
  readonly status: string;
  readonly id: number;
  readonly flags: string[];
  readonly question: { readonly name: string; readonly type: string }[];
  readonly answer: RecordDocument[];
  readonly authority: RecordDocument[];
  readonly additional: RecordDocument[];
  /** Extended DNS Errors (RFC 8914): why the answer is as it is. */
  readonly ede: { readonly code: number; readonly name: string; readonly text: string }[];
  readonly server: string;
  readonly transport: 'udp' | 'tcp';
  readonly bytes: number;
  readonly tookMs: number;
}

/** The reply as plain data: what `--json` prints. */
export function describeReply({ packet, bytes, tookMs, transport }: Reply, server: ListenAddress): ReplyDocument {
  const { header } = packet;
  const opt = packet.additionals.find((record) => record.type === Packet.TYPE.EDNS);
  const rcode = header.rcode | (((opt as { extendedRcode?: number } | undefined)?.extendedRcode ?? 0) << 4);
  return {
    status: nameOf(Packet.RCODE, rcode, 'RCODE'),
    id: header.id,
    flags: (['qr', 'aa', 'tc', 'rd', 'ra', 'ad', 'cd'] as const).filter(
      (flag) => (header as unknown as Record<string, number>)[flag],
    ),
    question: packet.questions.map(({ name, type }) => ({
      name: rooted(name),
      type: typeName(type ?? 0),
    })),
    answer: packet.answers.map(describeRecord),
    authority: packet.authorities.map(describeRecord),
    additional: packet.additionals.filter((record) => record !== opt).map(describeRecord),
    ede: extendedErrors(opt),
    server: showListen(server),
    transport,
    bytes,
    tookMs: Math.round(tookMs * 10) / 10,
  };
}

function extendedErrors(opt: Resource | undefined): ReplyDocument['ede'] {
  const options = (opt as { rdata?: { ednsCode: number; infoCode?: number; extraText?: string }[] } | undefined)?.rdata;
  return (options ?? [])
    .filter((option) => option.ednsCode === Packet.EDNS_OPTION_CODE.EDE && option.infoCode !== undefined)
    .map(({ infoCode, extraText }) => ({
      code: infoCode!,
      name: (Packet.EDE_NAME as Record<number, string>)[infoCode!]?.replaceAll('_', ' ').toLowerCase() ?? 'unknown',
      text: extraText ?? '',
    }));
}

function nameOf(numbers: object, code: number, prefix: string): string {
  return Object.entries(numbers).find(([, number]) => number === code)?.[0] ?? `${prefix}${code}`;
}

function describeRecord(record: Resource): RecordDocument {
  return {
    name: rooted(record.name),
    ttl: record.ttl ?? 0,
    type: typeName(record.type ?? 0),
    data: recordData(record as unknown as Record<string, unknown>),
  };
}

function recordData(record: Record<string, unknown>): string {
  const text = (key: string) => String(record[key] ?? '');
  switch (record.type) {
    case Packet.TYPE.A:
    case Packet.TYPE.AAAA:
      return canonicalAddress(text('address')) ?? text('address');
    case Packet.TYPE.SRV:
      return `${text('priority')} ${text('weight')} ${text('port')} ${rooted(text('target'))}`;
    case Packet.TYPE.SOA:
      return `${rooted(text('primary'))} ${rooted(text('admin'))} ${text('serial')} ${text('refresh')} ${text('retry')} ${text('expiration')} ${text('minimum')}`;
    case Packet.TYPE.TXT:
      return [record.data]
        .flat()
        .map((part) => JSON.stringify(String(part)))
        .join(' ');
    case Packet.TYPE.NS:
      return rooted(text('ns'));
    case Packet.TYPE.CNAME:
    case Packet.TYPE.PTR:
      return rooted(text('domain'));
    default: {
      const { name: _n, type: _t, class: _c, ttl: _l, data, ...rest } = record;
      // RFC 3597 s.5
      if (Buffer.isBuffer(data)) return `\\# ${data.length} ${data.toString('hex')}`;
      return Object.values(data === undefined ? rest : { data, ...rest })
        .map(String)
        .join(' ');
    }
  }
}

function rooted(name: string): string {
  return name.endsWith('.') ? name : `${name}.`;
}

function showReply(reply: ReplyDocument, style: Style): string {
  const good = reply.status === 'NOERROR';
  const records = (title: string, list: readonly RecordDocument[]) =>
    list.length === 0
      ? []
      : [
          style.dim(`;; ${title}`),
          table(list.map(({ name, ttl, type, data }) => [plain(name), String(ttl), 'IN', type, plain(data)])),
          '',
        ];
  return [
    `;; ${good ? style.good(reply.status) : style.bad(reply.status)}, id ${reply.id}, flags: ${reply.flags.join(' ')}`,
    ...reply.ede.map(({ code, name, text }) =>
      style.warn(`;; EDE ${code} (${name})${text === '' ? '' : `: ${plain(text)}`}`),
    ),
    ...reply.question.map(({ name, type }) => style.dim(`;; question: ${plain(name)} IN ${type}`)),
    '',
    ...records('answer', reply.answer),
    ...records('authority', reply.authority),
    ...records('additional', reply.additional),
    style.dim(`;; ${reply.server} over ${reply.transport}, ${reply.bytes} bytes, ${reply.tookMs} ms`),
  ].join('\n');
}
