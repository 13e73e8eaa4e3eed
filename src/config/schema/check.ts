/** `check`, of a zone or of one service. */
import { choice, expected, list, map, scalar, Wrong } from '../options.js';
import { duration, integer, share, statusRange, text } from './values.js';

/** RFC 9110 s.5.6.2 */
const TOKEN = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

export const CHECK_TYPES = ['tcp', 'http', 'https', 'grpc', 'exec', 'none'] as const;

export const checkOptions = {
  type: choice(
    CHECK_TYPES,
    'How an endpoint is probed. `none`: not at all, so that nothing corrects its state while the registry is not heard. `grpc` and `exec` are not available in this version.',
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

/** Faults that only show between two options of a check. */
export function checkFault(check: { readonly interval: number; readonly timeout: number }): Wrong | undefined {
  return check.timeout > check.interval ? new Wrong('expected a duration of at most interval', ['timeout']) : undefined;
}
