/** TCP: the endpoint passes when it takes a connection and, if one is expected, sends a greeting. */
import { connect, type Socket } from 'node:net';
import type { Ms } from '../../system/clock.js';
import { attempt, closeHard, failure, PASS, type Probe, withoutGoodbye } from './attempt.js';
import { classify } from './classify.js';

const MAX_GREETING_BYTES = 4_096;
/** So long the other side may take to close after a farewell, when the probe itself is over. */
const FAREWELL_MS: Ms = 1_000;

export const probeTcp: Probe = (target, signal) =>
  attempt(target.timeout, signal, (settle) => {
    const { address, port, expect, farewell } = target;
    const socket = withoutGoodbye(connect({ host: address, port }));
    let greeting = '';
    socket.on('error', (error) => settle(classify(error, address)));
    socket.once('connect', () => {
      if (metItself(socket)) settle(failure('refused', 'nobody listens'));
      else if (expect === undefined) settle(PASS);
    });
    if (expect !== undefined) {
      socket.on('data', (chunk: Buffer) => {
        greeting += chunk.toString('latin1');
        if (greeting.includes(expect)) settle(PASS);
        else if (greeting.length > MAX_GREETING_BYTES) settle(failure('bad-status', 'another greeting than expected'));
      });
      socket.on('end', () => settle(failure('bad-status', 'closed before the greeting that is expected')));
    }
    return () => {
      if (farewell === undefined || socket.connecting || socket.destroyed || !socket.writable) closeHard(socket);
      else partFrom(socket, farewell);
    };
  });

/** Says the farewell and leaves it to the other side to close, so that it does not take the end for a fault. */
function partFrom(socket: Socket, farewell: string): void {
  socket.removeAllListeners('data');
  socket.resume();
  socket.write(farewell, 'latin1');
  const bound = setTimeout(() => closeHard(socket), FAREWELL_MS);
  socket.on('end', () => closeHard(socket));
  socket.on('close', () => clearTimeout(bound));
}

/**
 * A closed port in the ephemeral range of this host can be given to the probe itself as its source; TCP then
 * connects the socket to itself, which proves nothing.
 */
export function metItself(
  socket: Pick<Socket, 'localAddress' | 'localPort' | 'remoteAddress' | 'remotePort'>,
): boolean {
  return socket.localPort === socket.remotePort && socket.localAddress === socket.remoteAddress;
}
