/** `check`, of a zone or of one service. */
import { nameToWire } from '../../dns/names.js';
import { choice, expected, list, map, scalar, Wrong } from '../options.js';
import { duration, integer, share, statusRange, text } from './values.js';

/** RFC 9110 s.5.6.2 */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

export const CHECK_TYPES = ['tcp', 'http', 'https', 'tls', 'grpc', 'dns', 'udp', 'exec', 'none'] as const;
/** Types of records that a check may ask for. */
const QUERY_TYPES = ['A', 'AAAA', 'NS', 'PTR', 'SOA', 'SRV', 'TXT'] as const;

/** Bytes on the wire, one a character: YAML writes them as "\\r\\n" or "\\x00". */
function payload(description: string) {
  return scalar(
    'bytes',
    (input) =>
      typeof input === 'string' && /^[\x00-\xff]{1,1024}$/.test(input)
        ? input
        : expected('text of up to 1024 bytes, others than ASCII as "\\x00" to "\\xff"', input),
    description,
    {},
  );
}

const domain = (description: string) =>
  scalar(
    'domain name',
    (input) => {
      const fits = typeof input === 'string' && /^[\w.-]{1,253}$/.test(input) && nameToWire(input) !== undefined;
      return fits ? input : expected('a domain name such as orders.example', input);
    },
    description,
    {},
  );

export const checkOptions = {
  type: choice(
    CHECK_TYPES,
    'How an endpoint is probed. `none`: not at all, so that nothing corrects its state while the registry is not heard. Services of UDP are probed by `udp`, `dns` and `exec` only.',
    { default: 'tcp' },
  ),
  interval: duration('Time between two probes of one endpoint (R17).', { default: '5s', min: '100ms', max: '1h' }),
  pinned: scalar(
    'true or false',
    (input) => (typeof input === 'boolean' ? input : expected('true or false', input)),
    'Probed at `interval` whether anybody asks or not, in place of `idleInterval` (R17).',
    { default: false },
  ),
  timeout: duration('When a probe without an answer has failed. At most `interval`.', {
    default: '1s',
    min: '10ms',
    max: '1h',
  }),
  rise: integer(1, 100, 'Passes in a row that bring an endpoint back (R13).', { default: 2 }),
  fall: integer(1, 100, 'Failures in a row that hold an endpoint back (R13).', { default: 3 }),
  port: integer(1, 65535, "Probed in place of the endpoint's own port.", {}),
  path: scalar(
    'path of a request',
    (input) =>
      typeof input === 'string' && /^\/[\x21-\x7e]{0,2000}$/.test(input)
        ? input
        : expected('a path that begins with /, such as /healthz', input),
    'http, https: what is requested.',
    { default: '/' },
  ),
  method: choice(['GET', 'HEAD'], 'http, https: the method.', { default: 'GET' }),
  host: scalar(
    'host name',
    (input) =>
      typeof input === 'string' && /^[\x21-\x7e]{1,255}$/.test(input) && !/[/?#@]/.test(input)
        ? input
        : expected('a host name such as orders.example', input),
    "http, https: the Host header. Without it, the endpoint's address.",
    {},
  ),
  headers: map(
    text('one line of text', 'A header.', {}),
    (name) => (TOKEN.test(name) ? undefined : 'expected the name of a header'),
    'http, https: further headers. Only local configuration may set them (R18).',
    { default: {} },
  ),
  status: list(
    statusRange('Statuses that pass.'),
    '["200-399"]',
    'http, https: statuses that pass. Redirects are not followed (R18).',
    { default: ['200-399'], min: 1 },
  ),
  body: text('one line of text', 'http, https: text that the first 64 KiB of the body must have.', {}),
  identityHeader: scalar(
    'NAME: VALUE',
    (input) => {
      const [, name = '', value = ''] = (typeof input === 'string' && /^([^:]+): ?(.*)$/.exec(input)) || [];
      return TOKEN.test(name) && /^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/.test(value)
        ? ([name, value] as const)
        : expected('a header and its value, such as "X-Service: orders"', input);
    },
    'http, https: a header of the response without which another service answers (R19). That is a hard failure, whatever the status (R12).',
    {},
  ),
  identityBody: text(
    'one line of text',
    'http, https: text without which in the body another service answers (R19).',
    {},
  ),
  drainHeader: scalar(
    'header name',
    (input) =>
      typeof input === 'string' && TOKEN.test(input) ? input : expected('the name of a header, such as X-Drain', input),
    'http, https: a 503 that has this header, whatever its value, says that the endpoint drains: it is left out at once, and that is no failure (R10). With `identityBody` its body must have that, too.',
    { default: 'X-Drain' },
  ),
  tlsName: domain(
    'tls, https, grpc: the name that is asked for and that the certificate must have, or another service answers (R19). Who signed it is not judged. With `grpc` it means TLS. None is shown: a server that demands one passes `tls`, and fails the others.',
  ),
  minValidity: duration('tls: how long the certificate must still be good.', { default: '0s', min: '0s' }),
  grpcService: text(
    'one line of text',
    'grpc: the service whose health is asked for. A server that does not know it is another one (R19). Without it, the health of the server.',
    {},
  ),
  query: domain('dns: the name that is asked. Needed there.'),
  queryType: choice(QUERY_TYPES, 'dns: the type that is asked.', { default: 'SOA' }),
  expect: payload(
    'tcp: what the greeting must have; without it, a server that takes the connection passes, even one that resets it at once. udp: what the reply must have.',
  ),
  farewell: payload(
    'tcp: sent at the end, for servers that take a bare connection for a fault. The other side then closes, or a reset comes a second later.',
  ),
  send: payload('udp: what is sent. Needed there.'),
  command: list(
    text('one line of text', 'A word.', {}),
    '["/usr/local/bin/check-orders", "--quick"]',
    'exec: a program and its arguments; the address is in HOLDFAST_ADDRESS, the port in HOLDFAST_PORT. Status 0 passes. At most 8 run at once. Needed there.',
    { min: 1 },
  ),
  softCap: share("Timeouts and bad statuses may hold back at most this share of a priority's endpoints (R12).", {
    default: 0.5,
  }),
  longDead: duration(
    'An endpoint that has failed for so long without one pass counts as dead: no cap protects it, and it stays out when the prober is silent (R12, R14).',
    { default: '10m', min: '1m' },
  ),
  failOpenWindow: duration(
    "When nothing passes: failing endpoints whose last pass is within this of the service's newest are answered before the others (R11). Three intervals where those are longer.",
    { default: '60s', min: '60s' },
  ),
};

/** Options without which a type of check makes no sense. */
const NEEDED = { dns: 'query', udp: 'send', exec: 'command' } as const;

/** Faults that only show between two options of a check. */
export function checkFault(check: {
  readonly type: (typeof CHECK_TYPES)[number];
  readonly interval: number;
  readonly timeout: number;
  readonly method: 'GET' | 'HEAD';
  readonly [option: string]: unknown;
}): Wrong | undefined {
  if (check.timeout > check.interval) return new Wrong('expected a duration of at most interval', ['timeout']);
  const { type } = check;
  const needed = type in NEEDED ? NEEDED[type as keyof typeof NEEDED] : undefined;
  if (needed !== undefined && check[needed] === undefined)
    return new Wrong(`missing, a check of type ${type} needs it`, [needed]);
  for (const option of ['body', 'identityBody']) {
    if (check[option] !== undefined && check.method === 'HEAD')
      return new Wrong('expected only with method GET', [option]);
  }
  return undefined;
}
