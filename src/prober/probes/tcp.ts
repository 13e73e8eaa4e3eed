/** TCP: the endpoint passes when it takes a connection. */
import { connect, type Socket } from 'node:net';
import { attempt, closeHard, failure, PASS, type Probe, withoutGoodbye } from './attempt.js';
import { classify } from './classify.js';

export const probeTcp: Probe = (target, signal) =>
  attempt(target.timeout, signal, (settle) => {
    const socket = withoutGoodbye(connect({ host: target.address, port: target.port }));
    socket.on('error', (error) => settle(classify(error, target.address)));
    socket.once('connect', () => settle(metItself(socket) ? failure('refused', 'nobody listens') : PASS));
    return () => closeHard(socket);
  });

/**
 * A closed port in the ephemeral range of this host can be given to the probe itself as its source; TCP then
 * connects the socket to itself, which proves nothing.
 */
export function metItself(
  socket: Pick<Socket, 'localAddress' | 'localPort' | 'remoteAddress' | 'remotePort'>,
): boolean {
  return socket.localPort === socket.remotePort && socket.localAddress === socket.remoteAddress;
}
