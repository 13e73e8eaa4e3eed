/**
 * The servers that are compared. Each has `start(context)`, which starts it for the zone of the context and returns
 * the program: from the registry's file, from a zone file, or from its cache in front of a nameserver.
 */
import { versionOf, which } from '../lib/system.mjs';
import { bindCache, bindZone } from './bind.mjs';
import { cLoop } from './c-loop.mjs';
import { coredns } from './coredns.mjs';
import { dgramLoop } from './dgram-loop.mjs';
import { dnsdist } from './dnsdist.mjs';
import { dnsmasq } from './dnsmasq.mjs';
import { batched, portable } from './holdfast.mjs';
import { knot } from './knot.mjs';
import { knotResolver } from './knot-resolver.mjs';
import { nsd } from './nsd.mjs';
import { powerdns } from './powerdns.mjs';
import { unbound } from './unbound.mjs';

/** Neighbours in this list are measured one after the other. */
const ALL = [
  cLoop,
  batched,
  unbound,
  nsd,
  powerdns,
  dnsdist,
  bindCache,
  bindZone,
  knot,
  dnsmasq,
  knotResolver,
  coredns,
  portable,
  dgramLoop,
];

/** What answers the caches' questions, in order of preference. */
const UPSTREAMS = [nsd, knot, bindZone];

/** Servers that are here, and the titles of those that are not. `only`: keys, absent for all. `kinds`: likewise. */
export function findServers(only, kinds) {
  const wanted = ALL.filter(
    ({ key, serves }) => (only === undefined || only.includes(key)) && (kinds === undefined || kinds.includes(serves)),
  );
  const servers = [];
  const missing = [];
  for (const server of wanted) {
    const found = locate(server);
    if (found === undefined) missing.push(server.title);
    else servers.push(found);
  }
  return { servers, missing };
}

/** A server for zone files. */
export function findUpstream() {
  const found = UPSTREAMS.map(locate).find((server) => server !== undefined);
  if (found === undefined) throw new Error('NSD, Knot DNS or BIND is needed in front of which caches are measured');
  return found;
}

/** Lines that say which versions were measured. */
export function versionFacts(servers, missing) {
  const known = servers.filter(({ version }) => version !== undefined);
  const versions = new Set(
    known.map(({ title, path, version }) => `${title.split(',')[0]} ${versionOf(path, ...version)}`),
  );
  const facts = versions.size === 0 ? [] : [[...versions].join(', ')];
  return missing.length === 0 ? facts : [...facts, `missing on this machine: ${missing.join(', ')}`];
}

function locate(server) {
  if (server.program === undefined) return { ...server };
  const path = which(server.program);
  return path === undefined ? undefined : { ...server, path };
}
