/** What both ways to read Consul are to the loop that asks them: a mirror, and services on demand. */
import type { ConsulRegistryConfig } from '../config/types.js';
import type { Ms } from '../system/clock.js';
import { type ConsulSource, POLL_MS } from './consul-source.js';
import { CredentialFiles } from './credential-files.js';
import { SHARED_PACE } from './pace.js';

export abstract class ConsulAdapter {
  readonly deadline = POLL_MS;
  readonly pace = SHARED_PACE;
  readonly lineage = true;
  readonly severalWatches = true;
  readonly identity: string;
  readonly interval: Ms;
  readonly presenceDeadline: Ms;
  readonly credentials: CredentialFiles;
  readonly #close: () => void;

  constructor(config: ConsulRegistryConfig, source: ConsulSource) {
    this.identity = source.identity;
    this.interval = source.interval;
    this.presenceDeadline = source.presenceDeadline;
    this.credentials = new CredentialFiles(config.tokenFile, config, (changed) => {
      // A certificate says nothing of what may be seen.
      if (changed.some((path) => path === config.tokenFile)) this.readAnew();
    });
    this.#close = () => source.close();
  }

  close(): void {
    this.#close();
  }

  /** Another token may see other services: whatever the indexes say, all is read once more. */
  protected abstract readAnew(): void;
}
