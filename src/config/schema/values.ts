/** The kinds of value that options have: durations, sizes, addresses, names. */
import { canonicalAddress, parseCidr, parseListen } from '../addresses.js';
import { expected, type Option, type Presence, scalar, Wrong } from '../options.js';
import type { Cidr, ListenAddress } from '../types.js';
import { formatDuration, parseDuration, parseSize } from '../units.js';

type Given = { readonly default?: unknown; readonly defaultText?: string; readonly required?: true };
type Made<T, G> = Option<T, G extends { required: true } | { default: unknown } ? 'always' : 'maybe'>;

const TEN_YEARS_MS = 3650 * 86_400_000;

/** Milliseconds, from text with a unit. `whole`: whole seconds, as DNS counts them. */
export function duration<
  const G extends Given & { readonly min?: string; readonly max?: string; readonly whole?: true },
>(description: string, given: G): Made<number, G> {
  const min = parseDuration(given.min ?? '1ms')!;
  const max = given.max === undefined ? TEN_YEARS_MS : parseDuration(given.max)!;
  const example = typeof given.default === 'string' ? given.default : '10s';
  const kind = `duration${given.whole ? ' in whole seconds' : ''}${given.min === undefined ? '' : `, ${given.min} or more`}`;
  return scalar(
    kind,
    (input) => {
      const ms = typeof input === 'string' ? parseDuration(input) : undefined;
      if (ms === undefined) {
        const unit = typeof input === 'number' ? ' (a unit is needed: ms, s, m, h or d)' : '';
        const wrong = expected(`a duration such as ${example}`, input);
        return new Wrong(wrong.message + unit);
      }
      if (ms < min) return expected(`a duration of at least ${formatDuration(min)}`, input);
      if (ms > max) return expected(`a duration of at most ${formatDuration(max)}`, input);
      if (given.whole && ms % 1000 !== 0) return expected('a duration in whole seconds', input);
      return ms;
    },
    description,
    given,
  ) as Made<number, G>;
}

/** An IP address, in canonical text. */
export function ipAddress<const G extends Given>(description: string, given: G): Made<string, G> {
  return scalar(
    'IP address',
    (input) => (typeof input === 'string' ? canonicalAddress(input) : undefined) ?? expected('an IP address', input),
    description,
    given,
  ) as Made<string, G>;
}

/** Bytes, from text with a unit. */
export function size<const G extends Given>(description: string, given: G): Made<number, G> {
  return scalar(
    'size',
    (input) => {
      const bytes = typeof input === 'string' ? parseSize(input) : undefined;
      if (bytes === undefined) return expected('a size such as 64MiB', input);
      return bytes < 1024 ? expected('a size of at least 1KiB', input) : bytes;
    },
    description,
    given,
  ) as Made<number, G>;
}

export function integer<const G extends Given>(lo: number, hi: number, description: string, given: G): Made<number, G> {
  return scalar(
    `whole number, ${lo} to ${hi}`,
    (input) =>
      typeof input === 'number' && Number.isInteger(input) && input >= lo && input <= hi
        ? input
        : expected(`a whole number from ${lo} to ${hi}`, input),
    description,
    given,
  ) as Made<number, G>;
}

/** A part of a whole. Zero is refused where it would switch off what the option limits. */
export function share<const G extends Given>(description: string, given: G, lowest: 0 | 0.01 = 0): Made<number, G> {
  return scalar(
    `share, ${lowest} to 1`,
    (input) =>
      typeof input === 'number' && input >= lowest && input <= 1
        ? input
        : expected(`a share from ${lowest} to 1, such as 0.5`, input),
    description,
    given,
  ) as Made<number, G>;
}

/** One line of text without control characters. */
export function text<const G extends Given>(what: string, description: string, given: G): Made<string, G> {
  return scalar(
    'text',
    (input) =>
      typeof input === 'string' && input !== '' && input.length <= 4096 && !/[\x00-\x1f\x7f]/.test(input)
        ? input
        : expected(what, input),
    description,
    given,
  ) as Made<string, G>;
}

export function path<const G extends Given>(description: string, given: G): Made<string, G> {
  const option = text('a path', description, given);
  return { ...option, kind: 'path' };
}

export function listenAddress<const G extends Given>(description: string, given: G): Made<ListenAddress, G> {
  return scalar(
    'address:port',
    (input) => {
      const address = typeof input === 'string' ? parseListen(input) : undefined;
      return address ?? expected('an address and port such as 127.0.0.1:53 or "[::1]:53"', input);
    },
    description,
    given,
  ) as Made<ListenAddress, G>;
}

export function prefix(description: string): Option<Cidr, Presence> {
  return scalar(
    'prefix',
    (input) => {
      if (typeof input !== 'string') return expected('a prefix such as 10.0.0.0/8 or fd00::/8', input);
      const result = parseCidr(input);
      return 'cidr' in result ? result.cidr : new Wrong(`${result.wrong}, got ${JSON.stringify(input)}`);
    },
    description,
    {},
  );
}

const LABEL = /^[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?$/;
/** Leaves room for `_portname._tcp.service.` and for the longest target below it. */
const MAX_ZONE_LENGTH = 180;

/** A domain name in lower case without the trailing dot. */
export function zoneName<const G extends Given>(description: string, given: G): Made<string, G> {
  return scalar(
    'domain name',
    (input) => {
      if (typeof input !== 'string') return expected('a domain name such as svc.internal', input);
      const name = input.toLowerCase().replace(/\.$/, '');
      if (name.length > MAX_ZONE_LENGTH) return expected(`a domain name of at most ${MAX_ZONE_LENGTH} octets`, input);
      const good = name.split('.').every((label) => LABEL.test(label)) && canonicalAddress(name) === undefined;
      return good ? name : expected('a domain name such as svc.internal', input);
    },
    description,
    given,
  ) as Made<string, G>;
}

/** One letter-digit-hyphen label (R22), in lower case. */
/** Labels that say what a name of Consul is of: no datacenter can be told by them. */
const CONSUL_KINDS = ['service', 'node', 'addr', 'query', 'connect', 'virtual', 'ingress'];

export function datacenter<const G extends Given>(description: string, given: G): Made<string, G> {
  return scalar(
    'datacenter',
    (input) => {
      const name = typeof input === 'string' ? input.toLowerCase() : '';
      return /^[a-z0-9_-]{1,63}$/.test(name) && !CONSUL_KINDS.includes(name)
        ? name
        : expected('the name of a datacenter, such as dc1', input);
    },
    description,
    given,
  ) as Made<string, G>;
}

export function label<const G extends Given>(description: string, given: G): Made<string, G> {
  return scalar(
    'label',
    (input) => {
      const name = typeof input === 'string' ? input.toLowerCase() : '';
      return /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/.test(name) && name !== 'ip'
        ? name
        : expected('one label of letters, digits and hyphens, such as orders', input);
    },
    description,
    given,
  ) as Made<string, G>;
}

/** Statuses as an inclusive range: `200`, `"200-399"`. */
export function statusRange(description: string): Option<readonly [number, number], Presence> {
  return scalar(
    'status or range of them',
    (input) => {
      const match = /^(\d{3})(?:-(\d{3}))?$/.exec(String(input));
      const from = Number(match?.[1]);
      const to = Number(match?.[2] ?? match?.[1]);
      return match && from >= 100 && to <= 599 && from <= to
        ? ([from, to] as const)
        : expected('a status or a range such as 200-399', input);
    },
    description,
    {},
  );
}

/** An `http` or `https` URL without credentials in it. */
export function url<const G extends Given>(description: string, given: G): Made<string, G> {
  return scalar(
    'URL',
    (input) => {
      const parsed = typeof input === 'string' && URL.canParse(input) ? new URL(input) : undefined;
      if (parsed && (parsed.username !== '' || parsed.password !== '')) {
        return new Wrong('credentials do not belong in a URL');
      }
      if (!parsed || !['http:', 'https:'].includes(parsed.protocol)) {
        return expected('a URL such as http://127.0.0.1:8500', input);
      }
      return input as string;
    },
    description,
    given,
  ) as Made<string, G>;
}

/** The `http` or `https` URL of a server as a whole. Without the last slash. */
export function origin<const G extends Given>(description: string, given: G): Made<string, G> {
  const whole = url(description, given);
  return scalar(
    'URL without a path',
    (input) => {
      const result = whole.schema.safeParse(input);
      if (!result.success) return new Wrong(result.error.issues[0]!.message);
      const parsed = new URL(result.data as string);
      const bare = parsed.pathname === '/' && parsed.search === '' && parsed.hash === '';
      return bare ? parsed.origin : expected('a URL without a path, such as http://127.0.0.1:2379', input);
    },
    description,
    given,
  ) as Made<string, G>;
}

/** Where keys begin: a path from `/`. Without the last slash. */
export function keyPrefix<const G extends Given>(description: string, given: G): Made<string, G> {
  return scalar(
    'key',
    (input) => {
      const key = typeof input === 'string' ? input.replace(/\/$/, '') : '';
      return /^(?:\/[^/\x00-\x20\x7f]+)+$/.test(key) && key.length <= 1024
        ? key
        : expected('a key such as /skydns', input);
    },
    description,
    given,
  ) as Made<string, G>;
}
