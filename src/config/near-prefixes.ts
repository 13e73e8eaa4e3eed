/** Loopback, the private ranges (RFC 1918, RFC 4193), shared address space (RFC 6598) and link-local. */
export const NEAR_PREFIXES = [
  '127.0.0.0/8',
  '::1/128',
  '10.0.0.0/8',
  '172.16.0.0/12',
  '192.168.0.0/16',
  '100.64.0.0/10',
  '169.254.0.0/16',
  'fc00::/7',
  'fe80::/10',
] as const;
