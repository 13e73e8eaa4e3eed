/** The whole file. */
import { choice, expected, list, scalar, section, type Values } from '../options.js';
import { forwardOptions } from './forward.js';
import { duration, integer, ipAddress, listenAddress, path, share } from './values.js';
import { zoneOptions } from './zone.js';

export const configOptions = {
  version: scalar(
    '`1`',
    (input) => (input === 1 ? (1 as const) : expected('1, the version of this format', input)),
    'The version of this format.',
    { required: true },
  ),
  listen: list(
    listenAddress('An address.', {}),
    '["127.0.0.1:53"]',
    'Where questions are answered, over UDP and TCP. IPv6 addresses stand in brackets: `"[::1]:53"`.',
    { default: ['127.0.0.1:53'], min: 1 },
  ),
  workers: integer(1, 64, 'Threads that answer UDP.', { default: 1 }),
  transport: choice(
    ['auto', 'batched', 'portable'],
    'How UDP is served: `batched` drives the socket in batches (Linux), `portable` runs anywhere, `auto` takes the faster that works.',
    { default: 'auto' },
  ),
  stateDir: path('Snapshots and the last good configuration.', {
    defaultText: '`/var/lib/holdfast`; for a user without it, `holdfast` in `$XDG_STATE_HOME` or `~/.local/state`',
  }),
  runDir: path('The sockets: control.sock, prober.sock, public.sock (R36).', {
    defaultText: '`/run/holdfast`; for a user without it, `holdfast` in `$XDG_RUNTIME_DIR`, or `/tmp/holdfast-UID`',
  }),
  admin: listenAddress('Metrics and the status page over HTTP, read-only. Without it, off.', {}),
  zones: list(
    section(zoneOptions, 'One domain and where its services come from.', { required: true }),
    '[{ name: svc.internal, registry: { type: file, path: services.yaml } }]',
    'The domains that are answered.',
    { required: true, min: 1 },
  ),
  forward: section(forwardOptions, 'Names outside the zones. Without it they are REFUSED.', {}),
  tcp: section(
    {
      idleTimeout: duration('A connection without a whole question for so long is closed.', {
        default: '10s',
        min: '1s',
      }),
      maxConnections: integer(
        1,
        65_536,
        'At once. With more, the one that has been idle for longest is closed; half of what the process may open is the most.',
        { default: 1024 },
      ),
      maxConnectionsPerClient: integer(
        1,
        65_536,
        'At once from one address that is not loopback; in place of more of them, its idlest is closed.',
        { default: 128 },
      ),
    },
    'Connections of clients. A change takes a restart.',
    { default: {} },
  ),
  bootstrap: list(
    listenAddress('A server.', {}),
    '["192.0.2.53:53"]',
    'Name servers for the host names of endpoints (R28) and of registries, asked in order while nothing is forwarded. With `forward` its upstreams are asked.',
    { default: [] },
  ),
  prober: section(
    {
      budget: integer(1, 100_000, 'Probes a second, at most (R17).', { default: 500 }),
      conntrackShare: share(
        "Of the kernel's connection tracking table, at most (R17); 1: it sets a bound only when it is filling up.",
        { default: 0.05 },
        0.01,
      ),
      source: list(
        ipAddress('An address of this host.', {}),
        '["10.0.0.5", "fd00::5"]',
        'Addresses that probes come from, one of each family. Without them, as the system chooses. Endpoints at loopback addresses are probed from loopback.',
        { default: [] },
      ),
    },
    'The companion process.',
    { default: {} },
  ),
  register: section(
    {
      path: path(
        'A directory of `*.yaml`, `*.yml` and `*.json`, each a service of this host that `holdfast register` keeps registered: see [the registrar](registrar.md).',
        { default: 'register.d' },
      ),
    },
    'The registrar.',
    { default: {} },
  ),
  log: section(
    {
      level: choice(['trace', 'debug', 'info', 'warn', 'error'], 'The least level that is written.', {
        default: 'info',
      }),
    },
    'The log.',
    { default: {} },
  ),
};

export const configSection = section(configOptions, 'The configuration.', { required: true });

/** A file that has passed the schema: units resolved, defaults in place, not yet checked across options. */
export type ConfigValues = Values<typeof configOptions>;
