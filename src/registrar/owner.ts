/**
 * Who wrote an entry. Two registrars of one id must not overwrite each other in turn, and one whose service was
 * restarted must not remove the entry of its successor: the younger one has the id.
 */
import { randomBytes } from 'node:crypto';
import type { WallMs } from '../system/clock.js';

/** Of one registrar, as its entries carry it: when it started, in ms of wall time, and something of its own. */
export function newOwner(started: WallMs): string {
  return `${Math.trunc(started)}-${randomBytes(4).toString('hex')}`;
}

/** Whether `other` came after `own`. What is no owner's mark never did. */
export function isYounger(other: unknown, own: string): boolean {
  const [theirs, mine] = [read(other), read(own)];
  if (theirs === undefined || mine === undefined || other === own) return false;
  return theirs.started === mine.started ? theirs.rest > mine.rest : theirs.started > mine.started;
}

function read(owner: unknown): { started: number; rest: string } | undefined {
  const match = typeof owner === 'string' ? /^(\d{1,16})-([0-9a-f]{8})$/.exec(owner) : null;
  return match === null ? undefined : { started: Number(match[1]), rest: match[2]! };
}
