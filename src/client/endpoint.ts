/** Where a service is, as DNS says it. */
import type { Ms } from '../system/clock.js';

export interface Endpoint {
  /** An IP address in canonical text. */
  readonly address: string;
  readonly port: number;
  /** Lower is tried first. */
  readonly priority: number;
  /** Its share among those of its priority. */
  readonly weight: number;
}

export function endpointKey({ address, port }: Endpoint): string {
  return `${address} ${port}`;
}

export function showEndpoint({ address, port }: { readonly address: string; readonly port: number }): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

/** What one look-up of a name brought. */
export type Outcome =
  | {
      readonly kind: 'found';
      /** The name that has the records, without trailing dot. */
      readonly name: string;
      /** `addresses`: from A and AAAA records, so that the ports are the asker's. */
      readonly from: 'srv' | 'addresses';
      /** At least one. */
      readonly endpoints: readonly Endpoint[];
      readonly ttl: Ms;
    }
  /** A name server says that there is none. */
  | { readonly kind: 'absent'; readonly reason: string }
  /** No name server gave an answer. */
  | { readonly kind: 'failed'; readonly reason: string };
