/** What a zone as a whole answers with: staleness, negative EDE, serial, status text. */
import type { BootMs } from '../system/clock.js';
import { describeAge, statusText } from './status-text.js';
import type { Zone } from './zone.js';
import type { ZoneSource } from './zone-source.js';

const EDE_STALE_NXDOMAIN = 19;

/** Brings it up to date. */
export function showState(zone: Zone, now: BootMs): void {
  const { sources, names, config } = zone;
  const { heard, lastConfirmed } = sources.facts();
  const stale = sources.isStale(now, config.softTtl);
  for (const { guardLog, hearing } of sources.all) guardLog.sound(hearing.clock.at(now));
  names.show(
    {
      synced: sources.complete && !zone.intake.first,
      ...(names.deferred ? { targetsPending: true } : {}),
      ...(heard ? {} : { negative: { code: EDE_STALE_NXDOMAIN, text: 'registry not heard' } }),
      serial: zone.serial,
      statusText: statusText(zone, stale),
    },
    stale ? staleText(lastConfirmed, now) : undefined,
    sources.layers.several ? sources.all.map((source) => staleTextOf(source, config.softTtl, now)) : [],
  );
}

/** When the state reads otherwise, or a guard's clock is due, if nothing else happens. */
export function nextState(zone: Zone, now: BootMs): BootMs {
  let next = Number.POSITIVE_INFINITY;
  for (const { hearing, guard, guardLog } of zone.sources.all) {
    next = Math.min(next, hearing.clock.bootAt(guard.nextWake(), now));
    if (!guardLog.alarm) next = Math.min(next, hearing.clock.bootAt(guardLog.due(), now));
    if (hearing.lastConfirmed === undefined) continue;
    const stale = hearing.lastConfirmed + zone.config.softTtl;
    next = Math.min(next, now <= stale ? stale + 1 : now + describeAge(now - hearing.lastConfirmed).nextChange);
  }
  return next;
}

function staleTextOf(source: ZoneSource, softTtl: number, now: BootMs): string | undefined {
  return source.isStale(now, softTtl) ? staleText(source.hearing.lastConfirmed, now) : undefined;
}

function staleText(lastConfirmed: BootMs | undefined, now: BootMs): string {
  return lastConfirmed === undefined ? 'stale' : `stale ${describeAge(Math.max(0, now - lastConfirmed)).text}`;
}
