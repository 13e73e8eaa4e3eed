/** Answers of Consul as a mirror takes them in, what they changed, and how they are compared with what is known. */
import { groupKey } from './consul-checks.js';
import type { ConsulReply } from './consul-client.js';
import type { ConsulNode, Instance } from './consul-instance.js';

/** An answer about all of something, or about one service or node. */
export interface Answer {
  readonly body: unknown;
  /** What the body was made of. */
  readonly bytes?: Buffer;
  /** `X-Consul-Index`. */
  readonly index: number;
  /** R6: the token does not see all of it: what is missing is not known to be gone. */
  readonly filtered: boolean;
}

export function answerOf(reply: ConsulReply): Answer {
  return { body: reply.body, bytes: reply.bytes, index: Number(reply.index ?? 0n), filtered: reply.filtered };
}

/** What an answer changed. */
export interface Findings {
  /** Services whose rows may be others now. */
  readonly changed: ReadonlySet<string>;
  /** Services that have to be read. */
  readonly unread: ReadonlySet<string>;
  /** An instance that was there is not there any more. */
  readonly lost?: boolean;
  /** The greatest `ModifyIndex` of the instances that were read. */
  readonly newest?: number;
}

export interface BadFindings extends Findings {
  /** Services with checks that left the list, and whether checks of nodes did. */
  readonly left: { readonly services: ReadonlySet<string>; readonly others: boolean };
}

/** The same tags in any order are the same text. Most services have one, or none. */
export function tagsText(list: unknown): string {
  if (!Array.isArray(list)) return JSON.stringify(list) ?? '';
  return list.length > 1 ? JSON.stringify([...list].sort()) : String(list[0] ?? '');
}

export function keyOf({ node, serviceId }: Instance): string {
  return groupKey(node, serviceId);
}

export function newestOf(instances: readonly Instance[]): number {
  return instances.reduce((newest, instance) => Math.max(newest, instance.newest), 0);
}

/** An instance is missing that is newer than the answer. */
export function isOlder(before: readonly Instance[], now: readonly Instance[], index: number): boolean {
  const newer = before.filter(({ newest }) => newest > index);
  if (newer.length === 0) return false;
  const keys = new Set(now.map(keyOf));
  return newer.some((instance) => !keys.has(keyOf(instance)));
}

/** By the index of their last change; one without an index may always be another, and so may those that were not read. */
export function sameInstances(before: readonly Instance[] | undefined, now: readonly Instance[]): boolean {
  if (before?.length !== now.length) return false;
  const known = new Map(before.map((instance) => [keyOf(instance), instance.newest]));
  return now.every((instance) => instance.newest > 0 && known.get(keyOf(instance)) === instance.newest);
}

export function sameNode(a: ConsulNode | undefined, b: ConsulNode): boolean {
  return a !== undefined && a.address === b.address && JSON.stringify(a.meta) === JSON.stringify(b.meta);
}

/** Of two indexes. */
export function later(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
