/** The body of an answer of HTTP service discovery to its contents; a large one in a thread of its own (R31). */
import type { Cidr } from '../config/types.js';
import { readTargets, type TargetsContents, type TargetsOptions } from './http-targets.js';
import { bracketFault } from './json-brackets.js';
import { type Packed, PackedListings, pack } from './packed-listings.js';
import { parseElsewhere } from './parse-elsewhere.js';
import { AddressPolicy } from './rows.js';

export interface TargetsJob {
  readonly bytes: Uint8Array;
  readonly options: Omit<TargetsOptions, 'policy'> & { readonly allowAddresses: readonly Cidr[] };
}

/** Larger ones (bytes) take more than some 100 ms. */
const INLINE_BYTES = 2 * 1024 * 1024;

/** Or why it cannot be believed. Never rejects. Of a large body the bytes are handed on: the caller has them no more. */
export async function parseTargets(job: TargetsJob): Promise<TargetsContents | string> {
  if (job.bytes.length <= INLINE_BYTES) return parseTargetsHere(job);
  const result = await parseElsewhere<PackedTargets | string>(
    { kind: 'targets', job },
    (reason) => `the body is ${reason}`,
  );
  return typeof result === 'string' ? result : { ...result, services: new PackedListings(result.services) };
}

/** What the other thread sends. */
export type PackedTargets = Omit<TargetsContents, 'services'> & { readonly services: Packed };

export function packedTargets(job: TargetsJob): PackedTargets | string {
  const result = parseTargetsHere(job);
  if (typeof result === 'string') return result;
  const { parts, facts } = pack(result.services);
  return { ...result, services: { parts, facts } };
}

function parseTargetsHere({ bytes, options: { allowAddresses, ...options } }: TargetsJob): TargetsContents | string {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return 'the body is not UTF-8';
  }
  const fault = bracketFault(bytes);
  if (fault !== undefined) return `the body is not a list of target groups: it is ${fault}`;
  return readTargets(text, { ...options, policy: new AddressPolicy(allowAddresses, false) });
}
