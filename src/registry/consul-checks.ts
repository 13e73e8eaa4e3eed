/** Consul's checks as they count for rows: the worst of an instance's own and its node's (R5), and what they test (R18). */
import { readCheck } from './listed-check.js';
import type { ListedCheck, RowState } from './registry.js';

/** A check as `health/state` and `health/service` give it. */
export interface ConsulCheck {
  readonly Node?: unknown;
  readonly CheckID?: unknown;
  readonly Status?: unknown;
  readonly ServiceID?: unknown;
  readonly ServiceName?: unknown;
  readonly Type?: unknown;
  readonly Definition?: unknown;
  readonly ModifyIndex?: unknown;
}

/** The worst first. Maintenance is somebody's will, whatever else is the matter. */
const WORST: readonly RowState[] = ['draining', 'critical', 'warning', 'passing'];
const MAINTENANCE = /^_(?:node_maintenance$|service_maintenance(?::|$))/;

export function groupKey(node: string, serviceId: string): string {
  return `${node.toLowerCase()}\n${serviceId}`;
}

export function worst(a: RowState, b: RowState): RowState {
  return WORST.indexOf(a) <= WORST.indexOf(b) ? a : b;
}

/** One that has what is needed of it. */
export interface WholeCheck extends ConsulCheck {
  readonly Node: string;
  readonly CheckID: string;
  readonly Status: string;
  readonly ServiceID?: string;
  readonly ServiceName?: string;
  readonly ModifyIndex?: number;
}

export function isCheck(check: ConsulCheck | null): check is WholeCheck {
  if (check === null) return false;
  if (typeof check.Node !== 'string' || typeof check.CheckID !== 'string' || typeof check.Status !== 'string') {
    return false;
  }
  const { ServiceID, ServiceName, ModifyIndex } = check;
  if (ServiceID !== undefined && typeof ServiceID !== 'string') return false;
  if (ServiceName !== undefined && typeof ServiceName !== 'string') return false;
  return ModifyIndex === undefined || typeof ModifyIndex === 'number';
}

/** What is no index says nothing of which word is newer. */
export function indexOf(value: unknown): number {
  return Number.isSafeInteger(value) && (value as number) > 0 ? (value as number) : 0;
}

export function stateOf(id: string, status: string): RowState {
  if (status === 'critical') return MAINTENANCE.test(id) ? 'draining' : 'critical';
  return status === 'warning' ? 'warning' : 'passing';
}

/**
 * What a check of Consul tests, as far as it says, and may say (R18): agents tell the type alone, and a definition of
 * HTTP without a path is none. The host is never taken.
 */
export function testOf(check: ConsulCheck): ListedCheck | undefined {
  const said = fieldsOf(check);
  const read = said && readCheck(said);
  return typeof read === 'string' ? undefined : read;
}

function fieldsOf({ Type, Definition }: ConsulCheck): Record<string, unknown> | undefined {
  if (Definition === undefined && Type !== 'tcp' && Type !== 'grpc') return undefined;
  const { HTTP, TCP, GRPC, GRPCUseTLS, TCPUseTLS, TLSServerName } = (Definition ?? {}) as Record<string, unknown>;
  if (typeof HTTP === 'string' && URL.canParse(HTTP)) {
    const { protocol, port, pathname } = new URL(HTTP);
    if (protocol !== 'http:' && protocol !== 'https:') return undefined;
    const type = protocol === 'http:' ? 'http' : 'https';
    const named = type === 'https' && typeof TLSServerName === 'string' && TLSServerName !== '';
    const ported = { type, port: port || (type === 'http' ? 80 : 443), path: pathname };
    return named ? { ...ported, tlsName: TLSServerName } : ported;
  }
  if (TCPUseTLS === true || GRPCUseTLS === true) return undefined;
  if (typeof TCP === 'string' && TCP !== '') return withPort('tcp', TCP);
  if (typeof GRPC === 'string' && GRPC !== '') return withPort('grpc', GRPC.replace(/\/.*$/, ''));
  if (Type === 'tcp' || Type === 'grpc') return { type: Type };
  return undefined;
}

function withPort(type: 'tcp' | 'grpc', target: string): Record<string, unknown> {
  return { type, port: /:(\d{1,5})$/.exec(target)?.[1] ?? '' };
}

/**
 * What the checks of a service's instances test, as one for all of them. The port that is an instance's own is each
 * instance's own. Where they disagree, what is right for one of them would hold back others: then there is none.
 */
export class CommonTest {
  #test: ListedCheck | undefined;
  #differs = false;

  /** @param test of one instance, if it has one; @param port its own */
  add(test: ListedCheck | undefined, port: unknown): void {
    if (test === undefined || this.#differs) return;
    const { port: tested, ...rest } = test;
    const common = tested === port ? rest : test;
    this.#differs = this.#test !== undefined && !sameTest(this.#test, common);
    this.#test = common;
  }

  get test(): ListedCheck | undefined {
    return this.#differs ? undefined : this.#test;
  }
}

export function sameTest(a: ListedCheck | undefined, b: ListedCheck | undefined): boolean {
  return a === b || JSON.stringify(a) === JSON.stringify(b);
}
