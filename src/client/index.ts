/**
 * `holdfast/client`: how a Node program reaches services whose endpoints come and go. It resolves SRV records, connects
 * by priority and weight (RFC 2782), goes on to the next endpoint when one fails, and with what it knew when name
 * servers are away.
 */
import type { Socket } from 'node:net';
import { type ConnectOptions, ServiceClient } from './client.js';

export { type ClientStatus, type ConnectOptions, ServiceClient } from './client.js';
export type { Endpoint } from './endpoint.js';
export { ClosedError, type FailedTry, type Failure, NoAnswerError, NotFoundError, UnreachableError } from './errors.js';
export type { ClientOptions, TlsOptions } from './options.js';
export type { Counters } from './services.js';

let shared: ServiceClient | undefined;

/**
 * `connect` of a client that the whole process shares, with the host's name servers and search domains:
 * `const socket = await connect('orders')`.
 * @throws UnreachableError, NotFoundError, NoAnswerError, or the reason of `signal`.
 */
export function connect(name: string, options: ConnectOptions = {}): Promise<Socket> {
  shared ??= new ServiceClient();
  return shared.connect(name, options);
}
