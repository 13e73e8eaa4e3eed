/** How a query came in: it decides the size limit of the reply. */
export type Transport = 'udp' | 'tcp';

/** 4 or 16 address bytes inside `bytes` at `offset`. A v4-mapped IPv6 peer is given as family 4. */
export interface Peer {
  family: 4 | 6;
  bytes: Uint8Array;
  offset: number;
}
