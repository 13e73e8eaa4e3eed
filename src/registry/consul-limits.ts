/** How much of one Consul is asked at once, and how fast. */
import type { GateLimits } from './request-gate.js';

/**
 * Of one Consul no more than 50 requests are under way, and no more than 50 come within any second, those included that
 * were sent over a tenth of a second and arrive together.
 */
export const CONSUL_LIMITS: GateLimits = { inFlight: 50, reserved: 10, burst: 8, gap: 27 };
/** On demand: look-ups never wait for reads. */
export const CONSUL_READ_LIMITS: GateLimits = { inFlight: 41, burst: 5, gap: 45 };
export const CONSUL_LOOK_UP_LIMITS: GateLimits = { inFlight: 9, burst: 5, gap: 75 };
