/** A question on its way to an upstream: what tells it from others, and what of its OPT record goes along. */
import { HEADER_BYTES, TYPE } from '../dns/constants.js';
import { FOLD } from '../dns/names.js';
import { PARSED, Query } from '../dns/query.js';
import { skipName } from './wire.js';

/** Options between neighbours, not between a client and whoever knows the answer: cookie, keepalive, padding. */
const HOP_BY_HOP: readonly number[] = [10, 11, 12];

export interface Question {
  /** The whole message as it came. */
  readonly query: Uint8Array;
  readonly questionEnd: number;
  /** Wire form in lower case, a byte a character. */
  readonly name: string;
  readonly type: number;
  readonly recursionDesired: boolean;
  readonly authenticData: boolean;
  readonly checkingDisabled: boolean;
  /** Its OPT record; undefined when there is none. */
  readonly edns: { readonly payload: number; readonly dnssecOk: boolean } | undefined;
  /** Options that are passed on, client subnet among them: such a question has an answer of its own. */
  readonly options: Uint8Array;
  /** Equal for questions that one answer serves. */
  readonly key: string;
}

const parser = new Query();

/** Undefined when it is no question that can be passed on. */
export function readQuestion(query: Uint8Array): Question | undefined {
  if (parser.parse(query, query.length) !== PARSED) return undefined;
  const { questionEnd, nameLength, type } = parser;
  const folded = query.slice(HEADER_BYTES, HEADER_BYTES + nameLength).map((byte) => FOLD[byte]!);
  const name = Buffer.from(folded).toString('latin1');
  const checkingDisabled = (query[3]! & 0x10) !== 0;
  const dnssecOk = parser.edns && parser.dnssecOk;
  const options = parser.edns ? passedOptions(findOptions(query, questionEnd)) : new Uint8Array(0);
  const flags = (dnssecOk ? 1 : 0) | (checkingDisabled ? 2 : 0);
  return {
    query,
    questionEnd,
    name,
    type,
    recursionDesired: (query[2]! & 1) !== 0,
    authenticData: (query[3]! & 0x20) !== 0,
    checkingDisabled,
    edns: parser.edns ? { payload: parser.payload, dnssecOk } : undefined,
    options,
    key: `${String.fromCharCode(flags, type)}${name}${Buffer.from(options).toString('latin1')}`,
  };
}

/** RDATA of the OPT record, which the parser has found well-formed. */
function findOptions(query: Uint8Array, start: number): Uint8Array {
  let at = start;
  for (;;) {
    at = skipName(query, at);
    if (at < 0 || at + 10 > query.length) return new Uint8Array(0);
    const end = at + 10 + ((query[at + 8]! << 8) | query[at + 9]!);
    if (((query[at]! << 8) | query[at + 1]!) === TYPE.OPT) return query.subarray(at + 10, end);
    at = end;
  }
}

/** A copy without what is between neighbours. */
export function passedOptions(options: Uint8Array): Uint8Array {
  const kept: number[] = [];
  for (let at = 0; at + 4 <= options.length; ) {
    const code = (options[at]! << 8) | options[at + 1]!;
    const end = at + 4 + ((options[at + 2]! << 8) | options[at + 3]!);
    if (!HOP_BY_HOP.includes(code)) kept.push(...options.subarray(at, end));
    at = end;
  }
  return Uint8Array.from(kept);
}

/** Labels from the left: each suffix of a name in wire form, the name itself first and the root last. */
export function* suffixes(name: string): Generator<string> {
  for (let at = 0; at < name.length; at += name.charCodeAt(at) + 1) {
    yield name.slice(at);
    if (name.charCodeAt(at) === 0) return;
  }
}
