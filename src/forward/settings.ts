/** What a forwarder is told. */
import type { ListenAddress } from '../config/types.js';
import type { ForeignQuestion } from '../server/handover-desk.js';
import type { KeptAnswer } from '../server/kept-answers.js';
import type { Ms } from '../system/clock.js';
import type { Hosts } from './hosts-file.js';

export interface ForwarderSettings {
  readonly upstreams: readonly ListenAddress[];
  /** Domains with servers of their own, in lower case. */
  readonly domains: readonly { readonly domain: string; readonly upstreams: readonly ListenAddress[] }[];
  /** Zones of ours of which some names are asked elsewhere: the answer threads hand those over, and no others. */
  readonly agents: readonly AgentSettings[];
  /** Whether the client may have recursion (R26). */
  readonly recurses: (peer: ForeignQuestion['peer']) => boolean;
  /** Our own zones: names in them never leave, whoever asks. */
  readonly zones: readonly string[];
  readonly cacheBytes: number;
  readonly maxStale: Ms;
  readonly maxUdp: number;
  /** Names that the hosts file has. */
  readonly hosts?: Hosts;
  /** Boot time. */
  readonly now: () => Ms;
  /** News of what threads keep, for all of them. */
  readonly renewed?: (answer: KeptAnswer) => void;
  /** Whether an address is one that we listen on. */
  readonly isOurs: (address: ListenAddress) => boolean;
}

export interface AgentSettings {
  /** The zone's name. */
  readonly domain: string;
  readonly upstreams: readonly ListenAddress[];
  /** Indexes of the listen addresses on which the zone exists; absent: all (R31). */
  readonly listen?: readonly number[];
}
