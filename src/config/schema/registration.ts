/** One registration: a file of `register.path`, or the options of `holdfast register`. */

import { canonicalAddress } from '../addresses.js';
import { choice, expected, list, type Option, type Presence, scalar, section, type Values } from '../options.js';
import { checkOptions } from './check.js';
import { duration, integer, label, zoneName } from './values.js';

/** What may stand between slashes of a key, in the name of a file, and in a label of a name. */
const WORD = /^[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/;

function word(
  example: string,
  description: string,
  given: { readonly required?: true; readonly defaultText?: string },
) {
  return scalar(
    'word',
    (input) =>
      typeof input === 'string' && WORD.test(input)
        ? input
        : expected(`letters, digits, hyphens, dots and underscores, such as ${example}`, input),
    description,
    given,
  ) as Option<string, Presence>;
}

const flag = (description: string) =>
  scalar(
    'true or false',
    (input) => (typeof input === 'boolean' ? input : expected('true or false', input)),
    description,
    { default: false },
  );

export const registrationOptions = {
  name: word('orders', 'The service.', { required: true }) as Option<string, 'always'>,
  port: integer(1, 65535, 'Its port on this host.', { required: true }),
  address: scalar(
    'IP address',
    (input) =>
      (typeof input === 'string' ? canonicalAddress(input) : undefined) ??
      expected('an IP address such as 10.0.0.7', input),
    'Its address as others reach it.',
    { defaultText: 'the first address of this host that is neither loopback nor link-local' },
  ),
  zone: zoneName('The zone in whose registry it is registered. Needed where there are several.', {}),
  id: word(
    'orders-1',
    'What tells this instance from others of the service. The younger of two registrars of one id has it.',
    {
      defaultText: '`NAME-HOST-PORT`',
    },
  ) as Option<string, 'maybe'>,
  protocol: choice(['tcp', 'udp'], 'Of the port.', { default: 'tcp' }),
  portName: label('The name of the port.', {}),
  tags: list(word('blue', 'A tag.', {}), '[blue]', 'Its tags.', { default: [] }),
  priority: integer(0, 65535, 'Lower is better.', { defaultText: "the registry's own" }),
  weight: integer(0, 65535, 'Its share within the priority.', { defaultText: "the registry's own" }),
  ttl: duration('How long the registry keeps it without a sign of life. One comes every third of that.', {
    default: '30s',
    min: '3s',
    max: '1h',
  }),
  check: section(
    checkOptions,
    'A check by the registrar itself, on this host. When it fails the registry is told `critical`.',
    {},
  ),
  whenHealthy: flag('Registered only while the check passes; without `check`, one of type tcp.'),
  drain: duration('When the registrar is stopped: how long it is marked as draining before it is removed.', {
    default: '0s',
    min: '0s',
    max: '1h',
  }),
};

export const registrationSection = section(registrationOptions, 'A registration.', { required: true });

export type RegistrationValues = Values<typeof registrationOptions>;
