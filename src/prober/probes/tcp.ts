/** TCP: the endpoint passes when it takes a connection and, if one is expected, sends a greeting. */
import type { Socket } from 'node:net';
import type { Ms } from '../../system/clock.js';
import type { Target } from '../feed.js';
import { closedTooEarly, failure, type Outcome, PASS, type Probe } from './attempt.js';
import { attemptOver, closeHard } from './connection.js';

const MAX_GREETING_BYTES = 4_096;
/** So long the other side may take to close after a farewell, when the probe itself is over. */
const FAREWELL_MS: Ms = 1_000;

export const probeTcp: Probe = async (target, signal, tries) => {
  const outcome = await attemptOver(
    target,
    signal,
    tries,
    (settle) => (socket) => greet(socket, target, settle),
    (socket) => end(socket, target),
  );
  return target.expect === undefined ? taken(outcome) : outcome;
};

/**
 * Where nothing more is asked, whoever takes a connection passes. That one was reset says that it was taken: how soon we
 * looked must not decide.
 */
export function taken(outcome: Outcome): Outcome {
  return outcome.kind === 'failure' && outcome.failure === 'reset' ? PASS : outcome;
}

function greet(socket: Socket, { expect }: Target, settle: (outcome: Outcome) => void): void {
  if (expect === undefined) {
    // Nothing is to be read, so nothing is waited for.
    settle(PASS);
    return;
  }
  let greeting = '';
  socket.on('data', (chunk: Buffer) => {
    greeting += chunk.toString('latin1');
    if (greeting.includes(expect)) settle(PASS);
    else if (greeting.length > MAX_GREETING_BYTES) settle(failure('bad-status', 'another greeting than expected'));
  });
  socket.on('end', () => settle(closedTooEarly('the greeting that is expected')));
}

function end(socket: Socket, { farewell }: Target): void {
  if (farewell === undefined || socket.destroyed || !socket.writable) closeHard(socket);
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
