/** TCP: the endpoint passes when it takes a connection and, if one is expected, sends a greeting. */
import type { Socket } from 'node:net';
import type { Ms } from '../../system/clock.js';
import type { Target } from '../feed.js';
import { attempt, failure, type Outcome, PASS, type Probe } from './attempt.js';
import { closeHard, openConnection } from './connection.js';

const MAX_GREETING_BYTES = 4_096;
/** So long the other side may take to close after a farewell, when the probe itself is over. */
const FAREWELL_MS: Ms = 1_000;

export const probeTcp: Probe = (target, signal) => {
  const sockets: Socket[] = [];
  let again: (() => void) | undefined;
  return attempt(
    target.timeout,
    signal,
    (settle) => {
      const open = (): void => {
        sockets.push(openOne(target, settle));
      };
      open();
      again = open;
      return () => {
        for (const socket of sockets) end(socket, target);
      };
    },
    // One lost packet is not sent again within the usual timeout: a second connection makes up for it.
    () => {
      if (sockets[0]?.connecting) again?.();
    },
  );
};

function openOne(target: Target, settle: (outcome: Outcome) => void): Socket {
  const { expect } = target;
  const socket = openConnection(target, settle);
  if (expect === undefined) {
    // Nothing is to be read, so nothing is waited for.
    socket.pause();
    // One that met itself has settled already.
    socket.once('connect', () => settle(PASS));
  } else {
    let greeting = '';
    socket.on('data', (chunk: Buffer) => {
      greeting += chunk.toString('latin1');
      if (greeting.includes(expect)) settle(PASS);
      else if (greeting.length > MAX_GREETING_BYTES) settle(failure('bad-status', 'another greeting than expected'));
    });
    socket.on('end', () => settle(failure('bad-status', 'closed before the greeting that is expected')));
  }
  return socket;
}

function end(socket: Socket, { farewell }: Target): void {
  if (farewell === undefined || socket.connecting || socket.destroyed || !socket.writable) closeHard(socket);
  else partFrom(socket, farewell);
}

/** Says the farewell and leaves it to the other side to close, so that it does not take the end for a fault. */
function partFrom(socket: Socket, farewell: string): void {
  socket.removeAllListeners('data');
  socket.resume();
  socket.write(farewell, 'latin1');
  const bound = setTimeout(() => closeHard(socket), FAREWELL_MS);
  socket.on('end', () => closeHard(socket));
  socket.on('close', () => clearTimeout(bound));
}
