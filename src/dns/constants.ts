/** Numbers of the DNS as IANA lists them, as far as they are used here. */

export const TYPE = {
  A: 1,
  NS: 2,
  CNAME: 5,
  SOA: 6,
  PTR: 12,
  TXT: 16,
  AAAA: 28,
  SRV: 33,
  DNAME: 39,
  OPT: 41,
  TKEY: 249,
  TSIG: 250,
  IXFR: 251,
  AXFR: 252,
  ANY: 255,
} as const;

export const CLASS = { IN: 1, CH: 3, ANY: 255 } as const;

export const RCODE = {
  NOERROR: 0,
  FORMERR: 1,
  SERVFAIL: 2,
  NXDOMAIN: 3,
  NOTIMP: 4,
  REFUSED: 5,
  NOTAUTH: 9,
  /** An extended one: its upper bits travel in the OPT record (RFC 6891). */
  BADVERS: 16,
} as const;

/** INFO-CODEs of Extended DNS Errors (RFC 8914). */
export const EDE = {
  STALE_ANSWER: 3,
  NOT_READY: 14,
  PROHIBITED: 18,
  STALE_NXDOMAIN: 19,
  NOT_AUTHORITATIVE: 20,
  NOT_SUPPORTED: 21,
  NO_REACHABLE_AUTHORITY: 22,
  NETWORK_ERROR: 23,
} as const;

/** The EDNS option that carries an Extended DNS Error. */
export const OPTION_EDE = 15;

/** Longest name on the wire, length octets and root label included (RFC 1035 s.2.3.4). */
export const MAX_NAME = 255;
export const MAX_LABEL = 63;
export const HEADER_BYTES = 12;
