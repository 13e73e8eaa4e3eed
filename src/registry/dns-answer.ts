/** What an answer says of the name that was asked for, and whether it says anything at all. */
import { TYPE } from '../dns/constants.js';
import type { Message, ReadRecord } from '../dns/read-message.js';
import type { Failure } from './adapter.js';

type Typed<T> = Extract<ReadRecord, { readonly type: T }>;

/**
 * The records of a type that a name has, under the last of its aliases, in an answer without an error. None at all
 * means that it has none: an answer that does not say so is a failure.
 */
export function recordsOf<T extends ReadRecord['type']>(
  { answers, authorities, authoritative, recursionAvailable }: Message,
  name: string,
  type: T,
): readonly Typed<T>[] | Failure {
  const aliases = new Map<string, string>();
  for (const record of answers) if (record.type === TYPE.CNAME) aliases.set(record.name, record.target);
  let owner = name.toLowerCase();
  const passed = new Set<string>();
  for (let next = aliases.get(owner); next !== undefined; next = aliases.get(owner)) {
    passed.add(owner);
    owner = next;
    if (passed.has(owner)) return strange('aliases (CNAME) that lead in a circle');
  }
  const own = answers.filter((record): record is Typed<T> => record.type === type && record.name === owner);
  if (own.length > 0) return own;
  if (answers.length > 0 && passed.size === 0) return strange('an answer about another name');
  const has = (other: number): boolean => authorities.some((record) => record.type === other);
  // A forwarder may pass on what refers to others (RFC 2308 s.2.2).
  const refers = has(TYPE.NS) && !has(TYPE.SOA) && !authoritative;
  const denied = has(TYPE.SOA) || (recursionAvailable && !refers);
  if (passed.size > 0 && !denied) return strange('an alias (CNAME) that the server does not follow');
  if (denied || authoritative) return [];
  return strange(refers ? 'a referral to other servers, and no answer' : 'an empty answer of a server that has no say');
}

function strange(reason: string): Failure {
  return { kind: 'unbelievable', reason };
}
