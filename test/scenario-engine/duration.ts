import type { Ms } from '../../src/system/clock.js';

const UNITS: Record<string, Ms> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const WHOLE = /^(?:\d+(?:\.\d+)?(?:ms|s|m|h|d))+$/;

export function isDuration(text: unknown): text is string {
  return typeof text === 'string' && WHOLE.test(text);
}

/** `1m30s`, `800ms`, `0s`: one or more numbers with a unit, added up. Throws on anything else. */
export function duration(text: string): Ms {
  if (!WHOLE.test(text)) throw new Error(`"${text}" is not a duration such as 10s, 1m30s or 800ms`);
  let sum = 0;
  for (const [, amount, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|s|m|h|d)/g)) {
    sum += Number(amount) * (UNITS[unit ?? ''] ?? 0);
  }
  return sum;
}

/** For people: `1h 2m 3.5s`. */
export function spoken(ms: Ms): string {
  const parts: string[] = [];
  const hours = Math.floor(ms / 3_600_000);
  const minutes = Math.floor((ms % 3_600_000) / 60_000);
  const seconds = (ms % 60_000) / 1000;
  if (hours > 0) parts.push(`${hours}h`);
  if (minutes > 0) parts.push(`${minutes}m`);
  if (seconds > 0 || parts.length === 0) parts.push(`${seconds}s`);
  return parts.join(' ');
}
