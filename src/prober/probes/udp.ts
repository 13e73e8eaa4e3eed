/** UDP: something is sent, and the endpoint passes when it replies as expected. Silence is a timeout. */
import { createSocket } from 'node:dgram';
import { isIPv6 } from 'node:net';
import { attempt, failure, type Outcome, PASS, type Probe, type Tries } from './attempt.js';
import { classify } from './classify.js';

export const probeUdp: Probe = (target, signal, tries) => {
  const { send = '', expect } = target;
  return exchange(target, signal, tries, Buffer.from(send, 'latin1'), (reply) => {
    if (expect === undefined || reply.includes(Buffer.from(expect, 'latin1'))) return PASS;
    return failure('bad-status', 'another reply than expected');
  });
};

/** So many that are no reply to the question are passed over: a late one, or what others send. */
const MAX_STRAYS = 32;

/** One datagram there, and the same again when nothing comes; `judge` says what a reply means, undefined when it is none. */
export function exchange(
  { address, port, timeout, source }: Parameters<Probe>[0],
  signal: AbortSignal,
  tries: Tries | undefined,
  query: Uint8Array,
  judge: (reply: Buffer) => Outcome | undefined,
): Promise<Outcome> {
  const start = (settle: (outcome: Outcome) => void) => {
    const socket = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
    let connected = false;
    let strays = 0;
    socket.on('error', (error) => settle(classify(error, address)));
    socket.on('message', (reply) => {
      const outcome = judge(reply);
      if (outcome !== undefined) settle(outcome);
      else if (++strays > MAX_STRAYS) settle(failure('bad-status', 'replies to no question, without an end'));
    });
    // Told to these, and not as events: no route, no permission, a datagram that is too long.
    const told = (error?: NodeJS.ErrnoException | null): void => {
      if (error) settle(classify(error, address));
    };
    const ask = (): void => socket.send(query, told);
    // Connected: only replies of the endpoint itself come in, and a closed port is told of.
    const begin = (): void =>
      socket.connect(port, address, (error?: NodeJS.ErrnoException) => {
        connected = error === undefined;
        if (connected) ask();
        else told(error);
      });
    if (source === undefined) begin();
    else socket.bind({ address: source }, begin);
    return {
      release: () => void socket.close(),
      again: (may: () => boolean) => {
        if (connected && may()) ask();
      },
    };
  };
  return attempt(timeout, signal, start, tries);
}
