/** The kinds of probes. A new kind is a file, a line in `PROBES`, and its options in `Target`. */
import type { ProbeType } from '../feed.js';
import type { Probe } from './attempt.js';
import { probeDns } from './dns.js';
import { probeExec } from './exec.js';
import { probeGrpc } from './grpc.js';
import { probeHttp } from './http.js';
import { probeTcp } from './tcp.js';
import { probeTls } from './tls.js';
import { probeUdp } from './udp.js';

export const PROBES: Readonly<Record<ProbeType, Probe>> = {
  tcp: probeTcp,
  http: probeHttp,
  https: probeHttp,
  tls: probeTls,
  grpc: probeGrpc,
  dns: probeDns,
  udp: probeUdp,
  exec: probeExec,
};
