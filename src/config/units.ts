/** Lengths of time and sizes as people write them. */
import type { Ms } from '../system/clock.js';

const UNIT_MS: Readonly<Record<string, Ms>> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const DURATION = /^(?:\d{1,12}(?:\.\d{1,6})?(?:ms|s|m|h|d))+$/;
const DURATION_PART = /(\d+(?:\.\d+)?)(ms|s|m|h|d)/g;

/** `200ms`, `5s`, `10m`, `24h`, `7d`, `1h30m`, in whole milliseconds. Anything else, a bare number too, is undefined. */
export function parseDuration(text: string): Ms | undefined {
  if (!DURATION.test(text)) return undefined;
  let total = 0;
  for (const [, amount, unit] of text.matchAll(DURATION_PART)) total += Number(amount) * UNIT_MS[unit!]!;
  return Math.round(total);
}

/** A duration as the configuration would write it, in the largest unit that divides it. */
export function formatDuration(ms: Ms): string {
  for (const unit of ['d', 'h', 'm', 's'] as const) {
    if (ms !== 0 && ms % UNIT_MS[unit]! === 0) return `${ms / UNIT_MS[unit]!}${unit}`;
  }
  return `${ms}ms`;
}

const UNIT_BYTES: Readonly<Record<string, number>> = {
  B: 1,
  kB: 1000,
  KiB: 1024,
  MB: 1_000_000,
  MiB: 1024 ** 2,
  GB: 1_000_000_000,
  GiB: 1024 ** 3,
};

/** `64MiB`, in bytes. Anything else, a bare number too, is undefined. */
export function parseSize(text: string): number | undefined {
  const match = /^(\d{1,12}(?:\.\d{1,6})?)(B|kB|KiB|MB|MiB|GB|GiB)$/.exec(text);
  return match ? Math.round(Number(match[1]) * UNIT_BYTES[match[2]!]!) : undefined;
}
