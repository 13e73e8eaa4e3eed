import type { Ms } from '../system/clock.js';

const SECOND: Ms = 1_000;
const UNITS: readonly (readonly [Ms, string])[] = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [SECOND, 's'],
];

/** An age in its largest whole unit, such as `42s` or `3h`, and in how many ms it will read otherwise. */
export function describeAge(age: Ms): { text: string; nextChange: Ms } {
  const [unit, name] = UNITS.find(([ms]) => age >= ms) ?? [SECOND, 's'];
  const count = Math.floor(age / unit);
  return { text: `${count}${name}`, nextChange: (count + 1) * unit - age };
}

/** What `_status.ZONE` tells, of a zone. */
export interface StatusFacts {
  readonly source: 'registry' | 'snapshot' | 'none';
  readonly hearing: { readonly heard: boolean };
  readonly health: { readonly known: number; readonly standing: number; readonly answered: number };
  holding(): readonly unknown[];
}

/** The strings of the TXT record at `_status.ZONE`. They change with the state, not with the clock. */
export function statusText(zone: StatusFacts, stale: boolean): string[] {
  const { source, health } = zone;
  const { heard } = zone.hearing;
  const state = source === 'none' ? 'never-synced' : stale ? 'stale' : 'fresh';
  return [
    `state=${state}`,
    `heard=${heard}`,
    `source=${source}`,
    `services=${health.known}`,
    `endpoints=${health.standing}`,
    `answered=${health.answered}`,
    `guarded=${zone.holding().length}`,
    `capacity=${heard ? 'follows the registry' : 'frozen'}`,
  ];
}
