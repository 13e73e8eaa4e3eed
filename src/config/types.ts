import type { Ms } from '../system/clock.js';

/** The configuration as the rest of the program sees it: defaults filled in, units resolved. */
export interface Config {
  readonly version: 1;
  /** The file it was read from. */
  readonly file: string;
  readonly listen: readonly ListenAddress[];
  /** UDP answer threads. */
  readonly workers: number;
  readonly transport: 'auto' | 'batched' | 'portable';
  readonly stateDir: string;
  readonly runDir: string;
  /** HTTP, read-only: metrics and the status page. Absent: off. */
  readonly admin?: ListenAddress;
  readonly zones: readonly ZoneConfig[];
  readonly forward?: ForwardConfig;
  readonly tcp: TcpConfig;
  /** Whom to ask for host names of endpoints while nothing is forwarded (R28). */
  readonly bootstrap?: readonly ListenAddress[];
  readonly prober: ProberConfig;
  /** A directory of registrations; absolute. */
  readonly register: { readonly path: string };
  readonly log: { readonly level: 'trace' | 'debug' | 'info' | 'warn' | 'error' };
}

export interface ListenAddress {
  /** An IP address in canonical text, without brackets. */
  readonly address: string;
  readonly port: number;
}

/** An address prefix, as text such as `10.0.0.0/8` or `fd00::/8`. */
export type Cidr = string;

export interface ForwardConfig {
  /** Empty when `resolvConf` names them. */
  readonly upstreams: readonly ListenAddress[];
  /** Absolute. */
  readonly resolvConf?: string;
  /** Lower case, no trailing dot. */
  readonly domains: readonly { readonly domain: string; readonly upstreams: readonly ListenAddress[] }[];
  /** Absolute; absent: none. */
  readonly hosts?: string;
  /** Clients whose names are forwarded. */
  readonly allow: readonly Cidr[];
  /** Bytes. */
  readonly cacheSize: number;
  readonly maxStale: Ms;
}

/** Connections of clients. */
export interface TcpConfig {
  readonly idleTimeout: Ms;
  readonly maxConnections: number;
  readonly maxConnectionsPerClient: number;
}

export interface ProberConfig {
  /** Probes a second a host, at most (R17). */
  readonly budget: number;
  /** Of the conntrack table, at most (R17). */
  readonly conntrackShare: number;
  /** Where probes come from, an address of each family at most; otherwise as the system chooses. */
  readonly source: readonly string[];
}

export interface ZoneConfig {
  /** Lower case, no trailing dot, such as `svc.internal`. */
  readonly name: string;
  readonly naming: 'rfc2782' | 'consul';
  /** With `naming: consul`: those whose names are answered, lower case. The first is the one of names that tell none. */
  readonly datacenters: readonly string[];
  /** With `naming: consul`: name servers that are asked for names that this zone cannot know. */
  readonly agentDns: readonly ListenAddress[];
  /** In order of belief (R32). */
  readonly registries: readonly RegistryConfig[];
  readonly merge: 'first' | 'union';
  readonly softTtl: Ms;
  /** TTL of every positive record, whole seconds. */
  readonly answerTtl: Ms;
  readonly negativeTtl: Ms;
  readonly allow: readonly Cidr[];
  /** A view: the zone exists on these listen addresses only (R31). Absent: on all. */
  readonly listen?: readonly ListenAddress[];
  readonly check: CheckConfig;
  readonly guard: GuardConfig;
  readonly limits: LimitsConfig;
  readonly addresses: 'fixed' | 'reused';
  readonly addressSpace?: string;
  /** Prefixes exempt from the address sanity of R18. */
  readonly allowAddresses: readonly Cidr[];
  readonly order: 'weighted' | 'stable';
  /** At most so many SRV or address records in an answer, a rotating subset (R24). */
  readonly maxAnswers?: number;
  readonly keepTargets: Ms;
  readonly snapshotTrust: Ms;
  readonly interest: Ms;
  readonly idleInterval: Ms;
  readonly forget: Ms;
  readonly onDemand: OnDemandConfig;
  /** By name or glob, in the order of the file; a later one wins over an earlier one, a name over a glob. */
  readonly services: readonly { readonly match: string; readonly settings: ServiceSettings }[];
}

/** Local settings for one service; they win over the registry's. */
export interface ServiceSettings {
  readonly check?: Partial<CheckConfig>;
  readonly order?: 'weighted' | 'stable';
  readonly maxAnswers?: number;
  /** Another label under which the service is answered (R22). */
  readonly alias?: string;
}

export interface CheckConfig {
  readonly type: 'tcp' | 'http' | 'https' | 'tls' | 'grpc' | 'dns' | 'udp' | 'exec' | 'none';
  readonly interval: Ms;
  /** Probed at `interval` whether anybody asks or not (R17). */
  readonly pinned: boolean;
  readonly timeout: Ms;
  /** Passes in a row that bring an endpoint back (R13). */
  readonly rise: number;
  /** Failures in a row that hold it back (R13). */
  readonly fall: number;
  /** Another port than the row's own. */
  readonly port?: number;
  /** http and https: the request path. */
  readonly path: string;
  readonly method: 'GET' | 'HEAD';
  /** http: the Host header; absent: the row's address. */
  readonly host?: string;
  readonly headers: Readonly<Record<string, string>>;
  /** http: statuses that pass, as inclusive ranges. */
  readonly status: readonly (readonly [number, number])[];
  /** http: text that the body must have. */
  readonly body?: string;
  /** R19, http: a header, by name and value, or text of the body, without which another one answers. */
  readonly identityHeader?: readonly [string, string];
  readonly identityBody?: string;
  /** R10, http: a 503 with it says that the endpoint drains. */
  readonly drainHeader: string;
  /** R19, tls, https, grpc: the name that is asked for, and that the certificate must have. */
  readonly tlsName?: string;
  /** tls: how long the certificate must still be good. */
  readonly minValidity: Ms;
  /** R19, grpc: the service whose health is asked for; absent: the server's as a whole. */
  readonly grpcService?: string;
  /** dns: what is asked. */
  readonly query?: string;
  readonly queryType: string;
  /** udp: what is sent. tcp: what is sent at the end. tcp, udp: what must come. One character a byte. */
  readonly send?: string;
  readonly farewell?: string;
  readonly expect?: string;
  /** exec: a program and its arguments. */
  readonly command?: readonly string[];
  /** Soft failures may hold back at most this share of a priority (R12). */
  readonly softCap: number;
  /** A failure this old is hard, and outlives the prober (R12, R14). */
  readonly longDead: Ms;
  /** R11, third step. */
  readonly failOpenWindow: Ms;
}

/** R8, R9. Times are heard time. */
export interface GuardConfig {
  readonly share: number;
  readonly count: number;
  readonly window: Ms;
  readonly confirm: Ms;
  readonly maxHold: Ms;
}

/** R33: of zones whose registry is asked for what clients ask. */
export interface OnDemandConfig {
  /** Look-ups a second. */
  readonly lookUps: number;
  /** How long it holds that there is no such service. */
  readonly unknownTtl: Ms;
  readonly maxUnknown: number;
}

export interface LimitsConfig {
  readonly maxServices: number;
  readonly maxEndpoints: number;
  readonly maxEndpointsPerService: number;
  /** Bytes of one registry body. */
  readonly maxBody: number;
}

/** A part of a registry: what is given must all hold. */
export interface FilterConfig {
  readonly tag?: string;
  /** Of the names of services; taken off. */
  readonly prefix?: string;
  /** Names or globs, without the prefix. */
  readonly services?: readonly string[];
}

export type RegistryConfig = KindConfig & { readonly filter?: FilterConfig };

export type KindConfig =
  | FileRegistryConfig
  | EtcdRegistryConfig
  | ConsulRegistryConfig
  | HttpRegistryConfig
  | DnsRegistryConfig;

export interface FileRegistryConfig {
  readonly type: 'file';
  /** A file or a directory of `*.yaml`, `*.yml`, `*.json`; absolute (resolved against the configuration's own folder). */
  readonly path: string;
  /** It has targets in the form of Prometheus, and how they become services. */
  readonly targets?: { readonly serviceLabel: string; readonly port?: number };
}

export interface DnsRegistryConfig {
  readonly type: 'dns';
  readonly servers: readonly ListenAddress[];
  /** Taken whole, where there are no `names`. Lower case. */
  readonly zone: string;
  /** Looked up one by one. */
  readonly names?: readonly string[];
  readonly interval: Ms;
  /** Of names that have addresses and no SRV record. */
  readonly port?: number;
  /** Where NOTIFY is taken. */
  readonly notify?: ListenAddress;
  /** The key that questions and answers are signed with. */
  readonly tsigKeyFile?: string;
}

/** Paths of PEM files, absolute. */
export interface TlsConfig {
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
  /** The name that certificates of the server must have, in place of that in its address. */
  readonly tlsName?: string;
}

export interface EtcdRegistryConfig extends TlsConfig {
  readonly type: 'etcd';
  /** Origins such as `http://127.0.0.1:2379`. */
  readonly endpoints: readonly string[];
  readonly layout: 'skydns' | 'plain';
  /** Where the services of the zone begin, without the last slash. With `skydns` the zone's labels are in it. */
  readonly prefix: string;
  /** Of entries that have none. */
  readonly port?: number;
  /** Both or neither. */
  readonly username?: string;
  readonly passwordFile?: string;
}

export interface ConsulRegistryConfig extends TlsConfig {
  readonly type: 'consul';
  /** Origins of agents or servers, such as `http://127.0.0.1:8500`. */
  readonly addresses: readonly string[];
  readonly tokenFile?: string;
  /** Absent: the agent's own. */
  readonly datacenter?: string;
  readonly namespace?: string;
  readonly partition?: string;
  /** Answers of servers that are not the leader are taken. */
  readonly stale: boolean;
  /** How long ago such a server may have heard of its leader. */
  readonly maxLag: Ms;
  /** Below it lie release marks, without slashes at its ends. */
  readonly kvPrefix: string;
  /** `asked`: on demand (R33). */
  readonly mirror: 'all' | 'asked';
}

export interface HttpRegistryConfig extends TlsConfig {
  readonly type: 'http';
  readonly url: string;
  readonly interval: Ms;
  readonly serviceLabel: string;
  /** Of targets that have none. */
  readonly port?: number;
  readonly tokenFile?: string;
  /** With `passwordFile`; not with `tokenFile`. */
  readonly username?: string;
  readonly passwordFile?: string;
}
