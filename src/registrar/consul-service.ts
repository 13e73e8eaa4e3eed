/** An entry as a service of a Consul agent, and whether what the agent has is that. */
import type { Entry } from './entry.js';

/** Why a service is in maintenance, when it is because it drains. */
export const DRAIN_REASON = 'draining, says holdfast';
/** As `registry/consul-instance.ts` reads them. */
const META = 'holdfast_';
const OWNER = `${META}owner`;

/** What an agent says of a service. */
export interface AgentService {
  readonly service: {
    readonly Service?: string;
    readonly Address?: string;
    readonly Port?: number;
    readonly Tags?: readonly string[] | null;
    readonly Meta?: Readonly<Record<string, string>> | null;
    readonly Weights?: { readonly Passing?: number; readonly Warning?: number } | null;
  };
  /** It has a check of its own. */
  readonly checked: boolean;
  /** Its TTL is over. */
  readonly expired: boolean;
  /** It is in maintenance; `draining`: because a registrar said so. */
  readonly maintenance: boolean;
  readonly draining: boolean;
}

export function metaOwner(found: AgentService | undefined): unknown {
  return found?.service.Meta?.[OWNER];
}

/** What is registered, without its check. Consul has no place of its own for priority, protocol and name of a port. */
function serviceOf(entry: Entry, owner: string) {
  const { service, address, port, protocol, portName, tags, priority, weight = 1 } = entry;
  const meta = {
    [OWNER]: owner,
    ...(protocol === 'tcp' ? {} : { [`${META}protocol`]: protocol }),
    ...(portName === undefined ? {} : { [`${META}port_name`]: portName }),
    ...(priority === undefined ? {} : { [`${META}priority`]: String(priority) }),
  };
  return {
    Name: service,
    Address: address,
    Port: port,
    Tags: tags,
    Meta: meta,
    Weights: { Passing: weight, Warning: weight },
  };
}

export function definitionOf(id: string, entry: Entry, owner: string, ttl: string, removal: string): object {
  const Status = entry.state === 'critical' ? 'critical' : 'passing';
  const Check = {
    CheckID: `service:${id}`,
    Name: 'kept alive by holdfast',
    TTL: ttl,
    DeregisterCriticalServiceAfter: removal,
    Status,
  };
  return { ID: id, ...serviceOf(entry, owner), EnableTagOverride: false, Check };
}

export function isAsWanted({ service, checked }: AgentService, entry: Entry, owner: string): boolean {
  const wanted = serviceOf(entry, owner);
  return (
    checked &&
    service.Service === wanted.Name &&
    service.Address === wanted.Address &&
    service.Port === wanted.Port &&
    service.Weights?.Passing === wanted.Weights.Passing &&
    sameList(service.Tags ?? [], wanted.Tags) &&
    sameMap(service.Meta ?? {}, wanted.Meta)
  );
}

function sameList(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((item, i) => item === b[i]);
}

function sameMap(a: Readonly<Record<string, string>>, b: Readonly<Record<string, string>>): boolean {
  const keys = Object.keys(b);
  return Object.keys(a).length === keys.length && keys.every((key) => a[key] === b[key]);
}
