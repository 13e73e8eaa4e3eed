/**
 * What crosses `prober.sock`: targets one way, results the other, as one JSON object a line.
 * The prober measures and reports facts; the resolver judges them (health/verdicts.ts).
 */
import type { BootMs, Ms, WallMs } from '../system/clock.js';

/** Ties the two streams of one prober together; its value is that session's id. */
export const SESSION_HEADER = 'holdfast-session';
/**
 * A prober that was replaced asks here when it is needed again. 204 comes when no other prober is connected, or the one
 * that is says nothing; the answer may take for ever. Anything else: ask again later.
 */
export const VACANCY_PATH = '/v1/vacancy';
/** A longer line is dropped unread, on either side. */
export const MAX_LINE_BYTES = 1024 * 1024;

/** Of a text for people; more of it is cut off on either side. */
export const MAX_DETAIL = 200;

export const PROBE_TYPES = ['tcp', 'http', 'https', 'tls', 'grpc', 'dns', 'udp', 'exec'] as const;
export type ProbeType = (typeof PROBE_TYPES)[number];

/** What is probed and how. Two rows with equal settings share one target (R13's key). */
export interface Target {
  /** Opaque; equal keys mean equal settings. Made by `targetKey`. */
  readonly key: string;
  readonly address: string;
  readonly port: number;
  readonly type: ProbeType;
  /** Absent: TCP. */
  readonly protocol?: 'udp';
  readonly interval: Ms;
  readonly timeout: Ms;
  /** Whose share of the budget it is in (R17); the same for all without it. */
  readonly group?: string;
  /** The address that it is probed from; the prober's own setting. Absent: as the system chooses. */
  readonly source?: string;
  readonly path?: string;
  readonly method?: 'GET' | 'HEAD';
  readonly host?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly status?: readonly (readonly [number, number])[];
  /** http, https: text that the body must have, for it to be well, or to be who it should be. */
  readonly body?: string;
  readonly identityBody?: string;
  /** http, https: with it, and any value, a 503 says that the endpoint drains. */
  readonly drainHeader?: string;
  /** http, https: a header that says who answers, by name and value. */
  readonly identityHeader?: readonly [string, string];
  /** tls, https, grpc: the name that is asked for, and that the certificate must have. With grpc it means TLS. */
  readonly tlsName?: string;
  /** tls: how long the certificate must still be good. */
  readonly minValidity?: Ms;
  readonly grpcService?: string;
  /** dns: a name and the number of a type. */
  readonly query?: string;
  readonly queryType?: number;
  /** udp: what is sent; tcp: what is sent before the end; both: what must come. One character a byte. */
  readonly send?: string;
  readonly farewell?: string;
  readonly expect?: string;
  /** exec: a program and its arguments. */
  readonly command?: readonly string[];
}

/** R12: hard failures prove that nobody serves there; soft ones may be a slow or a lost answer. */
export const FAILURE_KINDS = ['refused', 'reset', 'unroutable', 'wrong-identity', 'timeout', 'bad-status'] as const;
export type FailureKind = (typeof FAILURE_KINDS)[number];

/** One probe's outcome, stamped by the prober at the end of the probe (R13). Local errors are never sent as results (R15). */
export interface ProbeResult {
  readonly key: string;
  /** Boot time: both processes run on one machine and share it. */
  readonly at: BootMs;
  /** The interval as the prober really keeps it. */
  readonly interval: Ms;
  /** How long the probe took. */
  readonly took: Ms;
  readonly failure?: FailureKind;
  /** It answered that it drains: a pass, and a wish to be left out. */
  readonly draining?: true;
  /** For people: `ECONNREFUSED`, `HTTP 503`. */
  readonly detail?: string;
}

/** Resolver to prober. The first message on a connection is always `targets`. */
export type ToProber =
  | { readonly op: 'targets'; readonly targets: readonly Target[] }
  | { readonly op: 'change'; readonly add: readonly Target[]; readonly remove: readonly string[] }
  /** R20: these are probed as soon as the budget allows, since clients found them wanting. */
  | { readonly op: 'now'; readonly keys: readonly string[] }
  /** The last message: a newer prober has taken this one's place (R36). */
  | { readonly op: 'replaced' };

/** Prober to resolver. `alive` goes out once a second, with or without results. */
export type FromProber =
  | { readonly op: 'hello'; readonly pid: number; readonly version: string; readonly wall: WallMs }
  | { readonly op: 'results'; readonly results: readonly ProbeResult[] }
  | {
      readonly op: 'alive';
      readonly at: BootMs;
      readonly targets: number;
      readonly late: Ms;
      readonly localErrors: number;
      /** By how much intervals are longer than they should be, 1 or more. */
      readonly stretch?: number;
      /** The latest local error, for people. */
      readonly reason?: string;
      /** How full the host's connection tracking table is, 0 to 1; absent where connections are not tracked. */
      readonly conntrack?: number;
      /** Why plain TCP checks are done without native calls; absent: they are not. */
      readonly portable?: string;
    };
