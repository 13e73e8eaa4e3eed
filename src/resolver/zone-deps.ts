/** What a zone is given of what all zones share. */
import { isIP } from 'node:net';
import type { ZoneSpec } from '../answers/contract.js';
import type { AnswerTable } from '../answers/table.js';
import type { Places } from '../catalog/places.js';
import { isOnDemand } from '../config/on-demand.js';
import type { ListenAddress, ZoneConfig } from '../config/types.js';
import type { TargetSet } from '../health/targets.js';
import type { VerdictStore } from '../health/verdicts.js';
import type { Log } from './events.js';
import type { HostTable } from './host-table.js';
import type { Zone } from './zone.js';
import type { Asked } from './zone-asked.js';
import type { Holder } from './zone-probes.js';

export interface ZoneDeps {
  readonly table: AnswerTable;
  readonly verdicts: VerdictStore;
  readonly targets: TargetSet<Holder<Zone>>;
  /** Rows of all zones by address, port and protocol. */
  readonly places: Places<Holder<Zone>>;
  readonly log: Log;
  /** R17: by their slot in the answer table, whose names are asked. */
  readonly asked: Map<number, Asked<Zone>>;
  /** Indexes of the listen addresses on which the zone exists; absent: all. */
  readonly listen: readonly number[] | undefined;
  readonly nameservers: readonly string[];
  /** R28: host names of all zones. */
  readonly hosts: HostTable;
}

export function answerSpec(config: ZoneConfig, deps: ZoneDeps): ZoneSpec {
  return {
    name: config.name,
    naming: config.naming,
    ...(config.naming === 'consul' ? { datacenters: config.datacenters } : {}),
    ...(config.agentDns.length > 0 ? { handsOver: true } : {}),
    ...(config.registries.some(isOnDemand) ? { looksUp: true } : {}),
    answerTtl: config.answerTtl,
    negativeTtl: config.negativeTtl,
    allow: config.allow,
    ...(deps.listen === undefined ? {} : { listen: deps.listen }),
    nameservers: deps.nameservers,
  };
}

/** Where the addresses of a zone stand among all that are listened on. */
export function listenIndexes(zone: readonly ListenAddress[], all: readonly ListenAddress[]): number[] {
  return zone.map((wanted) => all.findIndex(({ address, port }) => address === wanted.address && port === wanted.port));
}

/** The addresses that a zone's NS target has: those listened on; for a wildcard the loopback address, as this is a host's nameserver. */
export function nameservers(listen: readonly ListenAddress[]): string[] {
  const addresses = listen.map(({ address }) =>
    address === '0.0.0.0' ? '127.0.0.1' : address === '::' ? '::1' : address,
  );
  return [...new Set(addresses)].filter((address) => isIP(address) !== 0);
}
