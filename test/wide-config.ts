/** The zones of wide histories: what they have, and what a reload or a restart may make of them. */
import { settings, ZONE } from './scenario-engine/settings.js';

export const OTHER = 'other.test';
export const UNION = 'union.test';
/** Registries, by zone and word, and the services that each may list. */
export const PLACES: Readonly<Record<string, readonly string[]>> = {
  [`${ZONE}/services`]: ['a', 'b', 'c'],
  [`${ZONE}/floor`]: ['c', 'd'],
  [`${ZONE}/third`]: ['c', 't'],
  [OTHER]: ['m', 'n'],
  [`${UNION}/left`]: ['u', 'v'],
  [`${UNION}/right`]: ['u', 'v'],
};
/** What a reload may change, one set of options at a time. */
export const RELOADS: readonly Readonly<Record<string, Readonly<Record<string, unknown>>>>[] = [
  {},
  { [ZONE]: { check: { timeout: 2_000 } } },
  { [ZONE]: { check: { pinned: false } }, [UNION]: { merge: 'first' } },
  { [ZONE]: { registries: ['floor', 'services'], addresses: 'reused' } },
  { [OTHER]: { addressSpace: 'elsewhere', addresses: 'fixed' } },
  { [ZONE]: { services: { a: { check: { type: 'none' } }, b: { check: { type: 'http', identityBody: 'b' } } } } },
  { [ZONE]: { check: { fall: 1, rise: 1, softCap: 0.3 } }, [OTHER]: { check: { interval: 30_000 } } },
  { [ZONE]: { registries: ['services', 'third'] } },
  { [ZONE]: { registries: ['third', 'services', 'floor'], limits: { maxEndpoints: 12 } } },
  { [ZONE]: { registries: ['floor'], keepTargets: 20_000 } },
  { [OTHER]: { gone: true } },
  { [UNION]: { gone: true }, [OTHER]: { addressSpace: undefined } },
  { [UNION]: { registries: ['right', 'left'], limits: { maxEndpoints: 6 } } },
  { [UNION]: { registries: ['right'] } },
  { [ZONE]: { check: { type: 'none' } }, [OTHER]: { check: { type: 'none' } }, [UNION]: { check: { type: 'none' } } },
];
/** Host names that endpoints may be listed by (R28). */
export const HOSTS = ['h1.example.com', 'h2.example.com'];
/** What a registry may say of how a service is checked (R18). */
export const CHECKS = [undefined, undefined, { type: 'http', path: '/a' }, { port: 9999 }, { type: 'none' }] as const;

/** @param reload which of `RELOADS` is laid over it */
export function configOf(reload: number) {
  const over = RELOADS[reload]!;
  const others = {
    [OTHER]: {
      addressSpace: 'lan',
      addresses: 'reused',
      registries: [{ type: 'etcd', endpoints: ['http://127.0.0.1:2379'], layout: 'plain', prefix: '/svc' }],
      ...over[OTHER],
    },
    [UNION]: { registries: ['left', 'right'], merge: 'union', check: { pinned: false }, ...over[UNION] },
  };
  return settings(
    { registries: ['services', 'floor'], addressSpace: 'lan', ...over[ZONE] },
    Object.fromEntries(Object.entries(others).filter(([, one]) => !('gone' in one))),
  );
}
