/** A TCP connection of a probe, from its opening to its hard end. */
import { connect, type Socket } from 'node:net';
import type { Target } from '../feed.js';
import { failure, type Outcome } from './attempt.js';
import { classify } from './classify.js';

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
    if (metItself(socket, port)) settle(failure('refused', 'nobody listens'));
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
