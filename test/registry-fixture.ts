/** Rows, lists and files that the tests of registries share. */
import { renameSync, writeFileSync } from 'node:fs';
import type { LimitsConfig } from '../src/config/types.js';
import type { Observation } from '../src/registry/adapter.js';
import type { Listing, Report, Row } from '../src/registry/registry.js';

export const LIMITS: LimitsConfig = {
  maxServices: 100,
  maxEndpoints: 1000,
  maxEndpointsPerService: 500,
  maxBody: 1 << 20,
};
export const NEVER = new AbortController().signal;

export function row(fields: Partial<Row> = {}): Row {
  const base = { id: 'a', address: '10.0.0.1', port: 80, protocol: 'tcp', priority: 0, weight: 1 } as const;
  return { ...base, tags: [], state: 'passing', ...fields };
}

/** Of a list or change: its services with their addresses. Of others: kind and reason. */
export function brief(report: Observation | Report | undefined): unknown {
  if (report?.kind === 'list' || report?.kind === 'change') {
    const services = [...report.services].map(({ name, rows }) => `${name}=${rows.map((r) => r.address).join()}`);
    return report.kind === 'list' && !report.removalsBelievable ? ['additions only', ...services] : services;
  }
  return report !== undefined && 'reason' in report ? `${report.kind}: ${report.reason}` : report?.kind;
}

export const listing = (name: string, ...addresses: string[]): Listing => ({
  name,
  rows: addresses.map((address) => row({ address })),
});

export function list(services: Listing[], more: Partial<Extract<Observation, { kind: 'list' }>> = {}): Observation {
  return { kind: 'list', epoch: 'e', services, releases: [], rejected: [], removalsBelievable: true, ...more };
}

export const ONE = 'services: { a: { endpoints: [{ address: 10.0.0.1, port: 80 }] } }\n';
export const TWO =
  'services: { a: { endpoints: [{ address: 10.0.0.1, port: 80 }, { address: 10.0.0.2, port: 80 }] } }\n';

/** As whoever writes a registry file should. */
export function replace(path: string, text: string): void {
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
}
