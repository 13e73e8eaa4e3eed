/** Certificates for 127.0.0.1 from an authority of the test, made with openssl. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TlsPair } from './fault-proxy.js';

export interface Certificates {
  readonly caFile: string;
  readonly good: TlsPair;
  readonly expired: TlsPair;
}

/** Undefined where there is no openssl. */
export function makeCertificates(folder: string): Certificates | undefined {
  mkdirSync(join(folder, 'issued'), { recursive: true });
  const config = `
[req]
distinguished_name = dn
prompt = no
[dn]
CN = registry
[ca]
default_ca = test
[test]
database = index
new_certs_dir = issued
rand_serial = yes
unique_subject = no
certificate = ca.pem
private_key = ca.key
default_md = sha256
policy = any
x509_extensions = leaf
[any]
commonName = supplied
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = keyCertSign
subjectKeyIdentifier = hash
[leaf]
subjectAltName = IP:127.0.0.1
`;
  writeFileSync(join(folder, 'index'), '');
  writeFileSync(join(folder, 'test.cnf'), config);
  const run = (...args: string[]): boolean => {
    return spawnSync('openssl', args, { cwd: folder, stdio: 'ignore' }).status === 0;
  };
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-config', 'test.cnf'];
  const issue = (name: string, from: string, to: string): boolean =>
    run(
      'ca',
      '-config',
      'test.cnf',
      '-batch',
      '-in',
      'leaf.csr',
      '-out',
      `${name}.pem`,
      '-startdate',
      from,
      '-enddate',
      to,
    );
  const made =
    run('req', '-x509', '-days', '2', ...key, '-extensions', 'authority', '-keyout', 'ca.key', '-out', 'ca.pem') &&
    run('req', ...key, '-keyout', 'leaf.key', '-out', 'leaf.csr') &&
    issue('good', '20200101000000Z', '20991231000000Z') &&
    issue('expired', '20200101000000Z', '20200201000000Z');
  if (!made) return undefined;
  const read = (name: string): string => readFileSync(join(folder, name), 'utf8');
  const pair = (name: string): TlsPair => ({ cert: read(`${name}.pem`), key: read('leaf.key') });
  return { caFile: join(folder, 'ca.pem'), good: pair('good'), expired: pair('expired') };
}
