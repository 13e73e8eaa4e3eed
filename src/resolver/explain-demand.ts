/** What a question for a name of a zone on demand would bring that is not in the table (R33). */
import type { Instant } from '../system/clock.js';
import type { Outcome } from './own-reply.js';
import { describeAge } from './status-text.js';
import type { Zone } from './zone.js';

export interface DemandWords {
  readonly outcome: Outcome | 'look-up';
  /** Empty: nothing that the name itself does not say. */
  readonly words: readonly string[];
}

/** @param below the labels below the zone, lower case */
export function explainDemand(zone: Zone, below: string, now: Instant): DemandWords {
  const { kind, service, remembered } = zone.lookUps.foretell(below.split('.'), now);
  if (kind === 'empty') return { outcome: 'nodata', words: ['names of services may be below it (R21, R33)'] };
  if (kind === 'unknown') return { outcome: 'nxdomain', words: [] };
  if (remembered !== undefined) {
    const left = describeAge(remembered.forMs).text;
    return remembered.kind === 'unknown'
      ? {
          outcome: 'nxdomain',
          words: [`the registry has no service ${service}, as it said lately: asked again in ${left} (R33)`],
        }
      : { outcome: 'servfail', words: [`a look-up of ${service} has just failed: tried again in ${left} (R33)`] };
  }
  const { lookUps } = zone.config.onDemand;
  const rate = zone.intake.failing
    ? 'while it is not heard one look-up in two seconds is tried, what is asked besides is SERVFAIL'
    : `at most ${lookUps} a second are, what is asked besides is SERVFAIL`;
  return {
    outcome: 'look-up',
    words: [`${service} is not known: when it is asked for it is looked up in the registry; ${rate} (R33)`],
  };
}
