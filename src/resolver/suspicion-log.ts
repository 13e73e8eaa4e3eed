/** What the log says of the prober's suspicion of its own host (R16): one line at the beginning and one at the end. */
import type { VerdictStore } from '../health/verdicts.js';
import type { Log } from './events.js';

const SUSPECTED = {
  failures: 'so much timed out at once that the fault is probably here',
  conntrack: 'the connection tracking table of this host is full',
} as const;

/** Returns the targets that are to be looked at again. */
export function tellSuspicion(verdicts: VerdictStore, log: Log): string[] {
  const keys: string[] = [];
  for (const event of verdicts.takeSuspectEvents()) {
    const family = `IPv${event.family}`;
    if (event.kind === 'began') {
      const { why, failing, of } = event;
      log('warn', 'suspect-self', {
        family,
        why,
        failing,
        of,
        meaning: `${SUSPECTED[why]}: timeouts are not believed (R16)`,
      });
      for (const key of event.keys) keys.push(key);
    } else {
      const { lasted, why } = event;
      log('info', 'suspect-self-ended', { family, lastedMs: Math.round(lasted), why });
    }
  }
  return keys;
}
