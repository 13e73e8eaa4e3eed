/**
 * Connections of probes that say more than any answer takes. What is under way is looked at together, so that one that
 * is short costs nothing: a peer that talks without an end may not take the time of all other probes.
 */
import type { Socket } from 'node:net';
import type { Ms } from '../../system/clock.js';

/** A chain of certificates, a head and a body, each of the largest that is taken (http.ts). */
export const MAX_RECEIVED_BYTES = 256 * 1024;
const LOOK_MS: Ms = 20;

const watched = new Map<Socket, () => void>();
let looking = false;

/** Until `unwatch`, `onFlood` is called when it has said too much. */
export function watch(socket: Socket, onFlood: () => void): void {
  watched.set(socket, onFlood);
  if (looking) return;
  looking = true;
  setTimeout(look, LOOK_MS);
}

export function unwatch(socket: Socket): void {
  watched.delete(socket);
}

function look(): void {
  for (const [socket, onFlood] of watched) if (socket.bytesRead > MAX_RECEIVED_BYTES) onFlood();
  looking = watched.size > 0;
  if (looking) setTimeout(look, LOOK_MS);
}
