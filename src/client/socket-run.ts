/** One connection to a service, over as many endpoints as it takes. */
import type { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { deadline } from './deadline.js';
import { type Endpoint, endpointKey } from './endpoint.js';
import { type FailedTry, failedTry, failureOf, isLocal, UnreachableError } from './errors.js';
import { openSocket, tlsFor } from './open-socket.js';
import type { Settings, TlsOptions } from './options.js';
import { ROUND_PAUSES_MS, type Services, type Wanted } from './services.js';

export interface SocketWanted extends Wanted {
  /** Present: TLS. */
  readonly tls: TlsOptions | undefined;
  readonly signal: AbortSignal | undefined;
}

/**
 * Connects to the next endpoint until one takes it; `chosen` is told which.
 * @throws UnreachableError with all tries, NotFoundError, NoAnswerError, or the signal's reason.
 */
export async function connectSocket(
  wanted: SocketWanted,
  services: Services,
  settings: Settings,
  chosen?: (endpoint: Endpoint, socket: Socket) => void,
): Promise<Socket> {
  const { counters } = services;
  counters.requests++;
  const stop = new AbortController();
  const late = new Error(`no connection within ${settings.timeout} ms`);
  const inTime = deadline(settings.timeout, () => stop.abort(late));
  const aborted = (): void => stop.abort(wanted.signal!.reason);
  if (wanted.signal?.aborted) aborted();
  wanted.signal?.addEventListener('abort', aborted, { once: true });
  const { signal } = stop;
  const failed: FailedTry[] = [];
  let name = wanted.host;
  try {
    const tried = new Set<string>();
    let rounds = 0;
    for (let count = 0; count < settings.attempts; ) {
      const located = await orAborted(services.locate(wanted), signal);
      name = located.name;
      const endpoint = services.next(located, tried);
      if (endpoint === undefined) {
        const pause = ROUND_PAUSES_MS[rounds++];
        if (pause === undefined) break;
        tried.clear();
        await sleep(pause, undefined, { signal });
        continue;
      }
      count++;
      tried.add(endpointKey(endpoint));
      const socket = await tryEndpoint(endpoint);
      if (socket !== undefined) return follow(socket, endpoint);
    }
    throw new UnreachableError(name, failed, 'every try failed');
  } catch (error) {
    if (wanted.signal?.aborted) throw wanted.signal.reason;
    counters.failed++;
    throw signal.aborted ? new UnreachableError(name, failed, late.message, { cause: late }) : error;
  } finally {
    inTime();
    wanted.signal?.removeEventListener('abort', aborted);
  }

  async function tryEndpoint(endpoint: Endpoint): Promise<Socket | undefined> {
    const { address, port } = endpoint;
    const abandoned = services.trying(endpoint);
    const tls = wanted.tls && tlsFor(name, wanted.tls);
    try {
      return await openSocket({ address, port, tls, timeout: settings.connectTimeout, signal });
    } catch (error) {
      abandoned();
      signal.throwIfAborted();
      const failure = failureOf(error);
      failed.push(failedTry(endpoint, failure, error));
      counters.failures[failure]++;
      if (!isLocal(error)) services.failed(wanted, name, endpoint, failure);
      return undefined;
    }
  }

  /** What becomes of it later is a word on the endpoint, too. */
  function follow(socket: Socket, endpoint: Endpoint): Socket {
    services.connected(endpoint);
    chosen?.(endpoint, socket);
    socket.once('close', (hadError) => {
      const failure = hadError ? failureOf(socket.errored) : 'other';
      if (failure !== 'other') services.failed(wanted, name, endpoint, failure);
    });
    return socket;
  }
}

/** Rejects with the signal's reason when that comes first. */
function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const aborted = (): void => reject(signal.reason);
    if (signal.aborted) aborted();
    signal.addEventListener('abort', aborted, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', aborted));
  });
}
