/** The gates of the servers that registries are asked at: one each, whoever asks, so that zones share what it may bear. */
import { showListen } from '../config/addresses.js';
import type { ListenAddress } from '../config/types.js';
import { type GateLimits, RequestGate } from './request-gate.js';

/**
 * Of one server no more than 50 requests are under way, and no more than 50 come within any second, those included that
 * were sent over a tenth of a second and arrive together.
 */
export const SOURCE_LIMITS: GateLimits = { inFlight: 50, reserved: 10, waiting: 38, burst: 8, gap: 27 };

const gates = new Map<string, RequestGate>();

/** Of the server of a URL, however that is spelt. */
export function gateOf(url: string): RequestGate {
  return gateAt(new URL(url).origin);
}

/** Of a name server, over UDP and TCP together. */
export function gateOfNameServer(server: ListenAddress): RequestGate {
  return gateAt(showListen(server));
}

function gateAt(place: string): RequestGate {
  let gate = gates.get(place);
  if (gate === undefined) gates.set(place, (gate = new RequestGate(SOURCE_LIMITS)));
  return gate;
}
