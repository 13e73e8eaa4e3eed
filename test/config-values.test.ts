import fc from 'fast-check';
import t from 'tap';
import { canonicalAddress, parseCidr, parseListen } from '../src/config/addresses.js';
import { defaultPlaces } from '../src/config/places.js';
import { matchesGlob, serviceSettings } from '../src/config/service-settings.js';
import { formatDuration, parseDuration, parseSize } from '../src/config/units.js';
import { PLACES } from './config-fixture.js';

t.test('units', async (t) => {
  const durations = [
    '200ms',
    '5s',
    '10m',
    '24h',
    '7d',
    '1h30m',
    '0.5s',
    '0s',
    '',
    '5',
    's',
    '5 s',
    '-5s',
    '1e3s',
    '5S',
  ];
  t.same(durations.map(parseDuration), [
    200,
    5000,
    600_000,
    86_400_000,
    604_800_000,
    5_400_000,
    500,
    0,
    ...Array<undefined>(7).fill(undefined),
  ]);
  t.same([0, 1, 1500, 60_000, 5_400_000, 172_800_000].map(formatDuration), ['0ms', '1ms', '1500ms', '1m', '90m', '2d']);
  t.same(['64MiB', '1kB', '2GB', '1.5KiB', '64', 'MiB', '64mib'].map(parseSize), [
    67_108_864,
    1000,
    2_000_000_000,
    1536,
    undefined,
    undefined,
    undefined,
  ]);
});

t.test('addresses and prefixes come to canonical text', async (t) => {
  t.same(
    ['127.0.0.1', '2001:DB8:0:0::1', '::ffff:10.0.0.1', '::', '1.2.3', '01.2.3.4', 'fe80::1%eth0', 'localhost', ''].map(
      canonicalAddress,
    ),
    ['127.0.0.1', '2001:db8::1', '10.0.0.1', '::', undefined, undefined, undefined, undefined, undefined],
  );
  t.same(
    ['127.0.0.1:53', '[::1]:53', '[0:0::1]:5353', '127.0.0.1', '::1:53', '127.0.0.1:0', '1.2.3.4:65536', ':53'].map(
      parseListen,
    ),
    [
      { address: '127.0.0.1', port: 53 },
      { address: '::1', port: 53 },
      { address: '::1', port: 5353 },
      ...Array<undefined>(5).fill(undefined),
    ],
  );
  const cidrs: [string, string][] = [
    ['10.0.0.0/8', '10.0.0.0/8'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['192.0.2.7', '192.0.2.7/32'],
    ['FD00::/8', 'fd00::/8'],
    ['::/0', '::/0'],
    ['2001:db8::1', '2001:db8::1/128'],
    ['fe80::/10', 'fe80::/10'],
    ['10.0.0.1/8', 'bits are set beyond /8: expected 10.0.0.0/8 or 10.0.0.1'],
    ['fd00::1/8', 'bits are set beyond /8: expected fd00::/8 or fd00::1'],
    ['fe81::/9', 'bits are set beyond /9: expected fe80::/9 or fe81::'],
    ['10.0.0.0/33', 'expected a prefix length of at most 32'],
    ['::ffff:10.0.0.0/104', 'write a v4-mapped prefix as IPv4, such as 10.0.0.0/32'],
    ['10.0.0.0/', 'expected a prefix such as 10.0.0.0/8 or fd00::/8'],
    ['all', 'expected a prefix such as 10.0.0.0/8 or fd00::/8'],
  ];
  for (const [text, expected] of cidrs) {
    const result = parseCidr(text);
    t.equal('cidr' in result ? result.cidr : result.wrong, expected, text);
  }
});

t.test('settings of a service: globs in order, its name over all', async (t) => {
  const services = [
    { match: 'db', settings: { order: 'weighted', check: { fall: 9 } } },
    { match: 'db*', settings: { order: 'stable', maxAnswers: 3, check: { type: 'none', rise: 5 } } },
    { match: '*', settings: { maxAnswers: 7, check: { rise: 1 } } },
  ] as const;
  t.same(serviceSettings(services, 'DB'), {
    order: 'weighted',
    maxAnswers: 7,
    check: { type: 'none', rise: 1, fall: 9 },
  });
  t.same(serviceSettings(services, 'web'), { maxAnswers: 7, check: { rise: 1 } });
  t.same(serviceSettings([], 'web'), {});
  const letters = fc.string({ unit: fc.constantFrom('a', 'b', '*', '?'), maxLength: 8 });
  const words = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 10 });
  t.doesNotThrow(() =>
    fc.assert(
      fc.property(letters, words, (glob, word) => {
        const reference = new RegExp(`^${glob.replaceAll('*', '.*').replaceAll('?', '.')}$`);
        return matchesGlob(glob, word) === reference.test(word);
      }),
    ),
  );
  t.equal(matchesGlob(`${'*a'.repeat(100)}b`, 'a'.repeat(5000)), false, 'and no glob takes long');
});

t.test('default places: the system for root, the user by the XDG specification', async (t) => {
  const user = defaultPlaces({ XDG_STATE_HOME: '/home/u/.state', XDG_RUNTIME_DIR: '/run/user/7' }, 7);
  t.same(defaultPlaces({ XDG_STATE_HOME: '/x', XDG_RUNTIME_DIR: '/x' }, 0), PLACES);
  // A host where holdfast is installed has the system's folders for everyone.
  t.ok(['/home/u/.state/holdfast', '/var/lib/holdfast'].includes(user.stateDir), user.stateDir);
  t.ok(['/run/user/7/holdfast', '/run/holdfast'].includes(user.runDir), user.runDir);
  t.same(
    defaultPlaces({ STATE_DIRECTORY: '/s/one:/s/two', RUNTIME_DIRECTORY: '/r/one', XDG_STATE_HOME: '/x' }, 0),
    { stateDir: '/s/one', runDir: '/r/one' },
    'what systemd gives a unit comes first',
  );
  const relative = defaultPlaces({ XDG_RUNTIME_DIR: 'here' }, 7);
  t.notMatch(relative.runDir, /here/, 'relative ones do not count');
});
