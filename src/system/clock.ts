/**
 * Clocks. Ages and deadlines are boot time, which goes on through a suspend and
 * never steps (R30); wall time is for display, for release marks, and for the age of a snapshot.
 */

/** A length of time in milliseconds. */
export type Ms = number;
/** A point in boot time, in milliseconds since the machine booted. */
export type BootMs = number;
/** A point in wall time, in milliseconds since 1970 (UTC). */
export type WallMs = number;

/** One moment as both clocks read it. Pure code gets it passed in and reads no clock. */
export interface Instant {
  readonly boot: BootMs;
  readonly wall: WallMs;
}

export interface Clock {
  now(): Instant;
}
