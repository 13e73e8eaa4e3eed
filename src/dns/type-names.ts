/** Record types by the names that people write. */

const NUMBERS: Readonly<Record<string, number>> = {
  A: 1,
  NS: 2,
  CNAME: 5,
  SOA: 6,
  PTR: 12,
  HINFO: 13,
  MX: 15,
  TXT: 16,
  RP: 17,
  AFSDB: 18,
  AAAA: 28,
  LOC: 29,
  SRV: 33,
  NAPTR: 35,
  CERT: 37,
  DNAME: 39,
  OPT: 41,
  DS: 43,
  SSHFP: 44,
  RRSIG: 46,
  NSEC: 47,
  DNSKEY: 48,
  NSEC3: 50,
  NSEC3PARAM: 51,
  TLSA: 52,
  SMIMEA: 53,
  CDS: 59,
  CDNSKEY: 60,
  OPENPGPKEY: 61,
  CSYNC: 62,
  ZONEMD: 63,
  SVCB: 64,
  HTTPS: 65,
  SPF: 99,
  TKEY: 249,
  TSIG: 250,
  IXFR: 251,
  AXFR: 252,
  ANY: 255,
  URI: 256,
  CAA: 257,
};

/** The number of a type by its name in any case, or as `TYPE123` (RFC 3597 s.5). Undefined when there is none. */
export function typeNumber(name: string): number | undefined {
  const word = name.toUpperCase();
  const generic = /^TYPE(\d{1,5})$/.exec(word);
  if (generic) return Number(generic[1]) <= 65535 ? Number(generic[1]) : undefined;
  return Object.hasOwn(NUMBERS, word) ? NUMBERS[word] : undefined;
}

/** The name of a type, `TYPE123` when it has none here. */
export function typeName(number: number): string {
  for (const [name, known] of Object.entries(NUMBERS)) if (known === number) return name;
  return `TYPE${number}`;
}
