/** The kinds of probes. A new kind is a file and a line in `PROBES`. */
import type { Target } from '../feed.js';
import type { Probe } from './attempt.js';
import { probeHttp } from './http.js';
import { probeTcp } from './tcp.js';

export const PROBES: Readonly<Record<Target['type'], Probe>> = {
  tcp: probeTcp,
  http: probeHttp,
  https: probeHttp,
};
