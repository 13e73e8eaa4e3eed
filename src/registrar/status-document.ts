/** What a registrar says of itself. */
import type { RegistrationStatus } from './registrar.js';
import type { WatchedProcess } from './watched-process.js';

export interface RegistrarStatus {
  readonly registrar: WatchedProcess;
  readonly version: string;
  /** The service's process, where one is watched. */
  readonly process?: WatchedProcess;
  /** What is wrong with the configuration, in words. */
  readonly problems: readonly string[];
  readonly registrations: readonly (Omit<RegistrationStatus, 'since'> & {
    /** Wall time, ISO. */
    readonly since: string;
  })[];
}
