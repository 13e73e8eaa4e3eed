/** How the host's budget of probes is shared among zones (R17, R31): what one does not need is the others'. Pure. */

/** One zone's part, in probes a second. */
export interface Share {
  /** What its targets ask for, and of that what is asked by those that were probed before. */
  asked: number;
  settled: number;
  /** What it gets. */
  given: number;
}

/** Sets `given` of each: what it asks for, or an equal part of what those leave that ask for less. */
export function shareOut(shares: Iterable<Share>, budget: number): void {
  const rising = [...shares].sort((a, b) => a.asked - b.asked);
  let left = budget;
  for (const [i, share] of rising.entries()) {
    share.given = Math.min(share.asked, left / (rising.length - i));
    left -= share.given;
  }
}
