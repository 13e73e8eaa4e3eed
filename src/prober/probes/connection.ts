/** A TCP connection of a probe, from its opening to its hard end. */
import { readFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import type { Target } from '../feed.js';
import { attempt, failure, local, type Outcome, type Tries, TWICE } from './attempt.js';
import { classify } from './classify.js';
import { unwatch, watch } from './floods.js';

/** How long the range of ports that the system gives out is believed. */
const BELIEVED_MS = 60_000;

export const MET_ITSELF: Outcome = failure('refused', 'nobody listens');

/**
 * An attempt over a TCP connection. `prepare` returns what uses it when it is there; a throw of either is local. `part`
 * ends it. The first of those that are tried is used, the others end then.
 */
export function attemptOver(
  target: Target,
  signal: AbortSignal,
  tries: Tries = TWICE,
  prepare: (settle: (outcome: Outcome) => void) => (socket: Socket) => void,
  part: (socket: Socket) => void = closeHard,
): Promise<Outcome> {
  return attempt(
    target.timeout,
    signal,
    (settle) => {
      const opening = new Opening(target, settle, prepare(settle), tries);
      return { release: () => opening.end(part), again: (may) => opening.again(may) };
    },
    tries,
  );
}

/** The connections of one probe. */
class Opening {
  readonly #open: () => Socket;
  readonly #tries: Tries;
  readonly #sockets: Socket[] = [];
  #used: Socket | undefined;
  #ended = false;

  constructor(target: Target, settle: (outcome: Outcome) => void, use: (socket: Socket) => void, tries: Tries) {
    this.#tries = tries;
    this.#open = () => {
      const socket = openConnection(target, settle);
      socket.once('connect', () => {
        if (this.#ended) return;
        this.#used = socket;
        this.#endOthers();
        try {
          use(socket);
          if (!this.#ended) watch(socket, () => settle(failure('bad-status', 'says more than any answer')));
        } catch (error) {
          settle(local(error instanceof Error ? error.message : String(error)));
        }
      });
      return socket;
    };
    this.#sockets.push(this.#open());
  }

  /** Opens one more unless one is there. */
  again(may: () => boolean): void {
    if (this.#used === undefined && may()) this.#sockets.push(this.#open());
  }

  end(part: (socket: Socket) => void): void {
    this.#ended = true;
    this.#endOthers();
    if (this.#used === undefined) return;
    unwatch(this.#used);
    part(this.#used);
  }

  #endOthers(): void {
    for (const socket of this.#sockets.splice(0)) {
      if (socket === this.#used) continue;
      if (socket.connecting) this.#tries.unanswered();
      closeHard(socket);
    }
  }
}

/** Opens one that is ended by `closeHard`. Errors are judged and settled; so is a connection to itself. */
function openConnection(
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
