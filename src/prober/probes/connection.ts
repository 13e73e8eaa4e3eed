/** A TCP connection of a probe, from its opening to its hard end. */
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import type { Target } from '../feed.js';
import { failure, type Outcome } from './attempt.js';
import { classify } from './classify.js';

/** How long the range of ports that the system gives out is believed. */
const BELIEVED_MS = 60_000;

export const MET_ITSELF: Outcome = failure('refused', 'nobody listens');

/** Opens one that is ended by `closeHard`. Errors are judged and settled; so is a connection to itself. */
export function openConnection(
  { address, port, source }: Pick<Target, 'address' | 'port' | 'source'>,
  settle: (outcome: Outcome) => void,
): Socket {
  const socket = withoutGoodbye(
    connect({ host: address, port, ...(source === undefined ? {} : { localAddress: source }) }),
  );
  socket.on('error', (error) => settle(classify(error, address)));
  socket.once('connect', () => {
    if (isGivenOut(port) && metItself(socket, port)) settle(MET_ITSELF);
  });
  return socket;
}

/**
 * For a socket that will be closed by `closeHard`: it never says goodbye in good order. A reset in the middle of
 * that is refused by the system, and would leave the descriptor open.
 */
export function withoutGoodbye<S extends Socket>(socket: S): S {
  socket._final = (done) => done();
  return socket;
}

/**
 * Closes with RST (R17): no TIME_WAIT here or there, at once. A socket that is still connecting has nothing to
 * reset, and would wait for the connection.
 */
export function closeHard(socket: Socket): void {
  if (socket.destroyed) return;
  if (!socket.connecting) socket.resetAndDestroy();
  socket.destroy();
}

/**
 * A closed port in the ephemeral range of this host can be given to the probe itself as its source; TCP then
 * connects the socket to itself, which proves nothing.
 */
export function metItself(
  socket: Pick<Socket, 'localAddress' | 'localPort' | 'remoteAddress'>,
  remotePort: number,
): boolean {
  // The port first: each end is asked of the system, and that nearly always tells.
  return socket.localPort === remotePort && socket.localAddress === socket.remoteAddress;
}

let givenOut: { readonly at: number; readonly first: number; readonly last: number } | undefined;

/** Whether the system may give this port to a connection of ours; only then can it meet itself. */
export function isGivenOut(port: number): boolean {
  const now = performance.now();
  if (givenOut === undefined || now - givenOut.at > BELIEVED_MS) givenOut = { at: now, ...readGivenOut() };
  return port >= givenOut.first && port <= givenOut.last;
}

/** All of them, where it is not said. */
function readGivenOut(): { first: number; last: number } {
  try {
    const [first, last] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split('\t').map(Number);
    if (first! > 0 && last! > 0) return { first: first!, last: last! };
  } catch {
    // Not Linux.
  }
  return { first: 1, last: 65_535 };
}
