/** `holdfast check`: what a configuration would serve, without serving it. */
import { showListen } from '../config/addresses.js';
import { ConfigError } from '../config/errors.js';
import { loadConfig } from '../config/load.js';
import type { Config, RegistryConfig, ZoneConfig } from '../config/types.js';
import { RESOLV_CONF_BYTES, readResolvConf } from '../forward/resolv-conf.js';
import { registryPlace } from '../registry/identity.js';
import { openAdapter } from '../registry/open.js';
import type { Listing, Rejected } from '../registry/registry.js';
import { readRegular } from '../system/regular-file.js';
import { plain, type Style, styleFor, table } from '../system/terminal.js';
import { complain, count, EXIT_FAILED, EXIT_OK, EXIT_USAGE, print } from './output.js';

interface ServiceSummary {
  readonly name: string;
  readonly endpoints: number;
  readonly states: Readonly<Record<string, number>>;
}

interface RegistrySummary {
  readonly type: string;
  readonly path: string;
  /** Why its list cannot be believed. */
  readonly error?: string;
  readonly services: readonly ServiceSummary[];
  readonly rejected: readonly Rejected[];
}

interface CheckDocument {
  ok: boolean;
  file: string;
  error?: string;
  listen: string[];
  /** Who is asked for other names. */
  forward?: { upstreams: string[]; note?: string };
  zones: { name: string; check: string; registries: RegistrySummary[] }[];
}

export async function check(options: { readonly config: string; readonly json?: boolean }): Promise<number> {
  const result = await inspect(options.config);
  if (options.json) print(JSON.stringify(result, null, 2));
  else if (result.error === undefined) print(show(result, styleFor()));
  else complain(result.error);
  if (result.error !== undefined) return EXIT_USAGE;
  const registries = result.zones.flatMap((zone) => zone.registries);
  if (registries.some(({ error }) => error !== undefined)) return EXIT_USAGE;
  return result.ok ? EXIT_OK : EXIT_FAILED;
}

async function inspect(file: string): Promise<CheckDocument> {
  let config: Config;
  try {
    config = loadConfig(file).config;
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { ok: false, file, error: error.message, listen: [], zones: [] };
  }
  const zones: CheckDocument['zones'] = [];
  for (const zone of config.zones) {
    const registries = await Promise.all(zone.registries.map((registry) => readOnce(registry, zone)));
    zones.push({ name: zone.name, check: zone.check.type, registries });
  }
  const ok = zones.every((zone) => zone.registries.every((r) => r.error === undefined && r.rejected.length === 0));
  const forward = forwardOf(config);
  return { ok, file: config.file, listen: config.listen.map(showListen), ...(forward ? { forward } : {}), zones };
}

/** A file that names nobody is no fault of the configuration: the network, or `holdfast install`, may write it later. */
function forwardOf({ forward, listen }: Config): CheckDocument['forward'] {
  if (forward?.resolvConf === undefined) return forward && { upstreams: forward.upstreams.map(showListen) };
  const path = forward.resolvConf;
  try {
    const named = readResolvConf(readRegular(path, RESOLV_CONF_BYTES).toString('utf8')).map(showListen);
    const upstreams = named.filter((server) => !listen.map(showListen).includes(server));
    return upstreams.length > 0 ? { upstreams } : { upstreams, note: `${path} names no server but this host's own` };
  } catch (error) {
    return { upstreams: [], note: `${path} cannot be read: ${(error as Error).message}` };
  }
}

const DEADLINE_MS = 30_000;

async function readOnce(registry: RegistryConfig, zone: ZoneConfig): Promise<RegistrySummary> {
  const adapter = openAdapter(registry, zone);
  try {
    const seen = await adapter.poll({ signal: AbortSignal.timeout(DEADLINE_MS), fresh: true });
    const about = { type: registry.type, path: registryPlace(registry) };
    if (seen.kind === 'list') return { ...about, services: [...seen.services].map(summarize), rejected: seen.rejected };
    const error = 'reason' in seen ? seen.reason : 'no list';
    return { ...about, error, services: [], rejected: [] };
  } finally {
    adapter.close();
  }
}

function summarize({ name, rows }: Listing): ServiceSummary {
  const states: Record<string, number> = {};
  for (const { state } of rows) states[state] = (states[state] ?? 0) + 1;
  return { name, endpoints: rows.length, states };
}

const MAX_SHOWN = 20;

function show(document: CheckDocument, style: Style): string {
  const lines = [`${plain(document.file)}: ${style.good('good')}`, `  listen on ${document.listen.join(', ')}`];
  if (document.forward) lines.push(`  other names: ${showForward(document.forward, style)}`);
  for (const zone of document.zones) {
    lines.push('', `${style.bold(zone.name)}, checks: ${zone.check}`);
    for (const registry of zone.registries) lines.push(...showRegistry(registry, style));
  }
  return lines.join('\n');
}

function showForward({ upstreams, note }: NonNullable<CheckDocument['forward']>, style: Style): string {
  if (note !== undefined) return `${style.warn('nobody to ask yet')}: ${plain(note)}`;
  return upstreams.length > 0 ? upstreams.join(', ') : 'none but those of `domains`';
}

function showRegistry(registry: RegistrySummary, style: Style): string[] {
  const endpoints = registry.services.reduce((sum, service) => sum + service.endpoints, 0);
  const lines = [
    `  ${registry.type} ${plain(registry.path)}: ${count(registry.services.length, 'service')}, ${count(endpoints, 'endpoint')}`,
  ];
  if (registry.error !== undefined) lines.push(`  ${style.bad('not usable')}: ${plain(registry.error)}`);
  const rows = registry.services.slice(0, MAX_SHOWN).map(({ name, endpoints: count, states }) => [
    plain(name),
    String(count),
    Object.entries(states)
      .filter(([state]) => state !== 'passing')
      .map(([state, n]) => `${n} ${state}`)
      .join(', '),
  ]);
  if (rows.length > 0) lines.push(table([['service', 'endpoints', ''].map(style.dim), ...rows], '    '));
  const more = registry.services.length - MAX_SHOWN;
  if (more > 0) lines.push(`    and ${more} more`);
  for (const { where, reason } of registry.rejected.slice(0, MAX_SHOWN)) {
    lines.push(`  ${style.warn('left out')} ${plain(where)}: ${plain(reason)}`);
  }
  const moreRejected = registry.rejected.length - MAX_SHOWN;
  if (moreRejected > 0) lines.push(`  and ${moreRejected} more left out`);
  return lines;
}
