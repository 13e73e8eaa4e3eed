/** What a program may set, with defaults, checked once. */
import { METHODS } from 'node:http';
import type { ConnectionOptions } from 'node:tls';
import type { Dispatcher } from 'undici';
import { canonicalAddress, parseListen } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import { nameToWire } from '../dns/names.js';
import type { Ms } from '../system/clock.js';

/** What TLS is to do; where it connects is the client's affair. */
export type TlsOptions = Omit<ConnectionOptions, 'host' | 'port' | 'path' | 'socket'>;

export interface ClientOptions {
  /**
   * The zone of short names, such as `svc.internal`: `orders` is `orders.svc.internal`, and the dispatcher and the
   * agents leave every host outside of it to `fallback` and to Node. Default: none; short names are completed by
   * `search` of `/etc/resolv.conf`, and every host name is looked up as a service.
   */
  readonly zone?: string;
  /** `ADDRESS`, `ADDRESS:PORT` or `[ADDRESS]:PORT`, or several, in the order of asking. Default: those of `/etc/resolv.conf`, read anew each time. */
  readonly nameserver?: string | readonly string[];
  /** Ask for `_PORTNAME._tcp.NAME` instead of `NAME`: for services with several ports. Default: none. */
  readonly portName?: string;
  /** How many times a request or connection is tried, in all. Default 10. */
  readonly attempts?: number;
  /** Milliseconds for all tries together, until the connection is made, or the response's head is there. Default 30000. */
  readonly timeout?: Ms;
  /** Milliseconds for one connection, TLS included. Default 1000. */
  readonly connectTimeout?: Ms;
  /**
   * Milliseconds after which a request that may be repeated, and has no answer yet, is sent to another endpoint as
   * well; whoever answers first is taken. 0: never. Default 1000.
   */
  readonly hedgeAfter?: Ms;
  /** Methods that may be sent more than once. Default: the idempotent ones of RFC 9110 s.9.2.2 but TRACE. */
  readonly retryMethods?: readonly string[];
  /** Bytes of a request's body, when it is a stream, that are kept for another try. Default 65536. */
  readonly maxReplay?: number;
  /** Milliseconds for which a failed endpoint is held back at first; twice as long each time, up to a minute. Default 5000. */
  readonly hold?: Ms;
  /** For `https:` and TLS: `ca`, `cert`, `servername` and the like. */
  readonly tls?: TlsOptions;
  /** What takes requests for hosts that are not services: IP addresses, `localhost`, and with `zone` all outside of it. Default: an Agent of undici. */
  readonly fallback?: Dispatcher;
  /** The socket that failed connections are reported to, or false for none. Default: `public.sock` where holdfast has it, if it is there. */
  readonly reports?: string | false;
}

export interface Settings {
  readonly zone: string | undefined;
  readonly nameservers: readonly ListenAddress[] | undefined;
  readonly portName: string | undefined;
  readonly attempts: number;
  readonly timeout: Ms;
  readonly connectTimeout: Ms;
  readonly hedgeAfter: Ms;
  readonly retryMethods: ReadonlySet<string>;
  readonly maxReplay: number;
  readonly hold: Ms;
  readonly tls: TlsOptions;
  readonly fallback: Dispatcher | undefined;
  readonly reports: string | false | undefined;
}

const IDEMPOTENT = ['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE'];
const DNS_PORT = 53;
const MAX_TIMER: Ms = 0x7fffffff;

const KNOWN: Readonly<Record<keyof ClientOptions, true>> = {
  zone: true,
  nameserver: true,
  portName: true,
  attempts: true,
  timeout: true,
  connectTimeout: true,
  hedgeAfter: true,
  retryMethods: true,
  maxReplay: true,
  hold: true,
  tls: true,
  fallback: true,
  reports: true,
};

/** @throws TypeError that names the option. */
export function settle(options: ClientOptions): Settings {
  const unknown = Object.keys(options).find((key) => !Object.hasOwn(KNOWN, key));
  if (unknown !== undefined) throw new TypeError(`unknown option: ${unknown}`);
  return {
    zone: zoneOf(options.zone),
    nameservers: options.nameserver === undefined ? undefined : nameserversOf(options.nameserver),
    portName: portNameOf(options.portName),
    attempts: whole('attempts', options.attempts, 10, 1),
    timeout: whole('timeout', options.timeout, 30_000, 1),
    connectTimeout: whole('connectTimeout', options.connectTimeout, 1_000, 1),
    hedgeAfter: whole('hedgeAfter', options.hedgeAfter, 1_000, 0),
    retryMethods: methodsOf(options.retryMethods ?? IDEMPOTENT),
    maxReplay: whole('maxReplay', options.maxReplay, 65_536, 0),
    hold: whole('hold', options.hold, 5_000, 1),
    tls: options.tls ?? {},
    fallback: options.fallback,
    reports: options.reports,
  };
}

function whole(name: string, value: number | undefined, otherwise: number, least: number): number {
  if (value === undefined) return otherwise;
  if (Number.isInteger(value) && value >= least && value <= MAX_TIMER) return value;
  throw new TypeError(`${name}: expected a whole number of at least ${least}, not ${String(value)}`);
}

function zoneOf(zone: string | undefined): string | undefined {
  const plain = zone?.toLowerCase().replace(/^\.|\.$/g, '');
  if (plain !== undefined && (plain === '' || nameToWire(plain) === undefined))
    throw new TypeError(`zone: expected a name such as svc.internal, not ${JSON.stringify(zone)}`);
  return plain;
}

function portNameOf(portName: string | undefined): string | undefined {
  if (portName === undefined || /^[a-z0-9](?:[a-z0-9-]{0,60}[a-z0-9])?$/i.test(portName)) return portName;
  throw new TypeError(`portName: expected a name such as http, not ${JSON.stringify(portName)}`);
}

function methodsOf(methods: readonly string[]): ReadonlySet<string> {
  const unknown = methods.find((method) => !METHODS.includes(method));
  if (unknown !== undefined) throw new TypeError(`retryMethods: ${JSON.stringify(unknown)} is no method of HTTP`);
  return new Set(methods);
}

function nameserversOf(given: string | readonly string[]): readonly ListenAddress[] {
  const all = typeof given === 'string' ? [given] : given;
  if (all.length === 0) throw new TypeError('nameserver: expected at least one');
  return all.map((text) => {
    const address = canonicalAddress(text);
    const server = address === undefined ? parseListen(text) : { address, port: DNS_PORT };
    if (server === undefined)
      throw new TypeError(`nameserver: expected ADDRESS, ADDRESS:PORT or [ADDRESS]:PORT, not ${JSON.stringify(text)}`);
    return server;
  });
}
