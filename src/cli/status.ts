/** `holdfast status`: how it stands, and above all what is frozen since when. */
import {
  type ForwardStatus,
  type OnDemandStatus,
  type PublicStatus,
  type RegistryStatus,
  type StatusDocument,
  type ZoneStatus,
  zoneTitle,
} from '../admin/documents.js';
import { age, plain, type Style, since, styleFor, table } from '../system/terminal.js';
import { askResolver } from './ask.js';
import { count, EXIT_FAILED, EXIT_OK, print } from './output.js';
import { registrarsOf, showRegistrars } from './status-registrars.js';

export async function status(options: { readonly config: string; readonly json?: boolean }): Promise<number> {
  const asked = await askResolver(options.config, '/v1/status', { orPublic: true });
  const registrars = asked.runDir === undefined ? [] : registrarsOf(asked.runDir);
  const [style, now] = [styleFor(), Date.now()];
  if (!asked.ok) {
    // Services may be registered from a host that has no resolver.
    if (registrars.length > 0) {
      print(options.json ? JSON.stringify({ registrars }, null, 2) : showRegistrars(registrars, style, now).join('\n'));
    }
    return asked.exit;
  }
  const document = asked.body as StatusDocument | PublicStatus;
  if (options.json) print(JSON.stringify({ ...document, ...(registrars.length === 0 ? {} : { registrars }) }, null, 2));
  else {
    const shown =
      asked.from === 'public'
        ? showPublic(document as PublicStatus, style)
        : showStatus(document as StatusDocument, style, now);
    print([shown, ...showRegistrars(registrars, style, now)].join('\n'));
  }
  return document.state === 'ok' ? EXIT_OK : EXIT_FAILED;
}

function showPublic(document: PublicStatus, style: Style): string {
  const { zones } = document;
  return [
    `${state(document.state, style)}  holdfast ${document.version}, up ${age(document.uptimeMs)}`,
    `zones: ${zones.total}, of them heard ${zones.heard}, stale ${zones.stale}`,
    style.dim('abridged: operators see more'),
  ].join('\n');
}

/** The whole document as lines for a person. `now` is wall time. */
export function showStatus(document: StatusDocument, style: Style, now: number): string {
  const parts = [
    `${state(document.state, style)}  holdfast ${document.version}, process ${document.pid}, up ${age(document.uptimeMs)}`,
    ...document.problems.map((problem) => `  ${style.warn('!')} ${plain(problem)}`),
    '',
    zoneTable(document.zones, style, now),
    ...document.zones.flatMap((zone) => zoneNotes(zone, style)),
    '',
    table(
      [
        ['config', plain(document.config.file) + (document.config.lastGood ? style.warn(' (last good)') : '')],
        ...(document.config.error ? [['', style.bad(plain(document.config.error))]] : []),
        ...document.listen.map((listen, i) => [i === 0 ? 'listen' : '', showListener(listen, style)]),
        ['transport', plain([document.transport, document.transportReason].filter(Boolean).join(': '))],
        ['prober', showProber(document, style)],
        ...(document.forward?.upstreams ?? []).map((upstream, i) => [
          i === 0 ? 'forward' : '',
          showUpstream(upstream, style),
        ]),
        ...(document.forward?.hosts ? [['hosts', showHosts(document.forward.hosts)]] : []),
      ],
      '  ',
    ),
  ];
  return parts.join('\n');
}

function showHosts({ file, names, ignored }: NonNullable<ForwardStatus['hosts']>): string {
  return `${plain(file)}, ${names} names${ignored === 0 ? '' : `, ${ignored} not understood`}`;
}

function state(word: 'ok' | 'degraded', style: Style): string {
  return style.bold(word === 'ok' ? style.good('ok') : style.warn('degraded'));
}

function zoneTable(zones: readonly ZoneStatus[], style: Style, now: number): string {
  const head = [
    'zone',
    'state',
    'registry',
    'confirmed',
    'services',
    'endpoints',
    'answered',
    'held back',
    'guarded',
    'checks',
  ];
  const rows = zones.map((zone) => [
    plain(zoneTitle(zone)),
    zone.state === 'fresh' ? style.good(zone.state) : style.warn(zone.state),
    zone.heard ? 'heard' : style.warn(`not heard since ${since(zone.since, now)}`),
    zone.lastConfirmedMs === undefined ? '-' : `${age(zone.lastConfirmedMs)} ago`,
    String(zone.services),
    String(zone.endpoints),
    String(zone.answered),
    String(zone.heldBack),
    String(zone.guarded),
    zone.checks === 'on' ? 'on' : style.warn('off'),
  ]);
  return table([head.map(style.dim), ...rows], '  ');
}

const MAX_SHOWN = 5;

function zoneNotes(zone: ZoneStatus, style: Style): string[] {
  const title = plain(zoneTitle(zone));
  const note = (what: string, items: readonly string[]) => {
    if (items.length === 0) return [];
    const more = items.length > MAX_SHOWN ? ` and ${items.length - MAX_SHOWN} more` : '';
    return [`  ${title}: ${what}: ${items.slice(0, MAX_SHOWN).map(plain).join(', ')}${more}`];
  };
  return [
    ...(zone.registries.length > 1 ? zone.registries.map((registry) => registryLine(title, registry, style)) : []),
    ...(zone.source === 'snapshot' && zone.registries.length === 1
      ? [`  ${title}: from the snapshot, the registry has not spoken yet`]
      : []),
    ...(zone.guard.zone
      ? [
          `  ${style.warn(`${title}: the guard holds the whole zone: ${count(zone.guarded, 'endpoint')} kept against the registry's word`)} (holdfast accept '*' --zone ${plain(zone.name)} lets go)`,
        ]
      : []),
    ...note('guard holds endpoints of', zone.guard.services),
    ...note('nothing healthy, answered all the same', zone.floor),
    ...note('not answered, all endpoints belong to others', zone.withheld),
    ...note('names in conflict', zone.conflicts),
    ...note('no label, so without a name (alias gives one)', zone.unnamed),
    ...note('host names', zone.hosts),
    ...note(
      'not understood',
      zone.rejected.map(({ where, reason }) => `${where}: ${reason}`),
    ),
    ...(zone.onDemand === undefined ? [] : [onDemandLine(title, zone.onDemand)]),
    ...(zone.checks === 'off' ? [`  ${title}: no checks: stale endpoints are not corrected`] : []),
  ];
}

/** R33. */
function onDemandLine(title: string, { lookUps, refused, waiting, unknown }: OnDemandStatus): string {
  const { found, unknown: absent, failed } = lookUps;
  const asked = `on demand: ${found + absent + failed} looked up (${found} found, ${absent} unknown, ${failed} failed)`;
  const limited = refused === 0 ? '' : `, ${count(refused, 'question')} over the rate or in an outage`;
  return `  ${title}: ${asked}${limited}; ${waiting} waiting, ${unknown} remembered as unknown`;
}

/** One of several, in their order of belief (R32). */
function registryLine(title: string, registry: RegistryStatus, style: Style): string {
  const { heard, reason, source, services, endpoints, lastConfirmedMs } = registry;
  const word = heard
    ? style.good('heard')
    : `${style.warn('not heard')}${reason === undefined ? '' : `: ${plain(reason)}`}`;
  const confirmed = lastConfirmedMs === undefined ? '' : `, confirmed ${age(lastConfirmedMs)} ago`;
  const from = source === 'snapshot' ? ', from the snapshot' : source === 'none' ? ', nothing known of it' : '';
  const has = `${count(services, 'service')}, ${count(endpoints, 'endpoint')}`;
  return `  ${title}: ${plain(registry.registry)}: ${word}${confirmed}${from}; ${has}`;
}

function showListener(listen: StatusDocument['listen'][number], style: Style): string {
  const one = (what: string, state: 'up' | 'retrying') =>
    `${what} ${state === 'up' ? style.good(state) : style.bad(state)}`;
  const address = listen.address.includes(':') ? `[${listen.address}]` : listen.address;
  const error = listen.error === undefined ? '' : `  ${style.bad(plain(listen.error))}`;
  return `${address}:${listen.port}  ${one('udp', listen.udp)}  ${one('tcp', listen.tcp)}${error}`;
}

function showUpstream(upstream: ForwardStatus['upstreams'][number], style: Style): string {
  const domain = upstream.domain === undefined ? '' : ` for ${plain(upstream.domain)}`;
  const word = upstream.state === 'up' ? style.good('up') : style.bad(upstream.state);
  const error = upstream.lastError === undefined ? '' : `: ${plain(upstream.lastError)}`;
  return `${plain(upstream.address)}${domain}  ${word}, ${upstream.queries} asked, ${upstream.failures} failed${error}`;
}

function showPortable({ portable }: StatusDocument['prober']): string {
  return portable === undefined ? '' : `, without native calls: ${plain(portable)}`;
}

function showProber({ prober }: StatusDocument, style: Style): string {
  switch (prober.state) {
    case 'ok':
      return `${style.good('ok')}, ${prober.targets} targets, heard ${age(prober.lastHeardMs)} ago${showPortable(prober)}`;
    case 'stale':
      return `${style.bad('silent')} for ${age(prober.lastHeardMs)}: is \`holdfast probe\` running?`;
    case 'never':
      return `${style.bad('not connected yet')}: is \`holdfast probe\` running?`;
    case 'not-needed':
      return 'not needed, no zone has checks';
  }
}
