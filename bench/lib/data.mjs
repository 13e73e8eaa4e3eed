/** The same services as a registry file, as a zone file and as lists of questions. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const ZONE = 'svc.internal';
export const PORT = 8080;

const QUESTIONS = 1_000_000;

/** The address of the nth endpoint. */
export function addressOf(n) {
  return `10.${(n >>> 16) & 255}.${(n >>> 8) & 255}.${n & 255}`;
}

export function targetName(address) {
  return `${address.replaceAll('.', '-')}.ip.${ZONE}`;
}

export function serviceName(n) {
  return `s${n}`;
}

/**
 * Writes what a run of benchmarks needs below `folder`. Every service has `each` endpoints of one port.
 * `address(service, i)` and `port(service, i)` say where they are.
 */
export class DataSet {
  constructor(folder, { services, each = 3, ttl = 86_400, address, port = () => PORT }) {
    this.folder = folder;
    this.services = services;
    this.each = each;
    this.ttl = ttl;
    this.address = address ?? ((service, i) => addressOf(service * each + i + 1));
    this.port = port;
  }

  /** @returns the path of the file registry's file */
  registryFile({ more = () => ({}), file = 'services.json' } = {}) {
    const parts = [];
    for (let s = 0; s < this.services; s++) {
      const endpoints = this.#endpoints(s).map((endpoint) => ({ ...endpoint, ...more(s, endpoint) }));
      parts.push(`${JSON.stringify(serviceName(s))}:${JSON.stringify({ endpoints })}`);
    }
    return this.#write(file, [`{"services":{\n${parts.join(',\n')}\n}}\n`]);
  }

  /** @returns the path of an RFC 1035 zone file with the same names */
  zoneFile() {
    const lines = [
      `$ORIGIN ${ZONE}.`,
      `$TTL ${this.ttl}`,
      `@ IN SOA ns hostmaster 1 3600 600 604800 ${this.ttl}`,
      '@ IN NS ns',
      'ns IN A 127.0.0.1',
    ];
    const targets = new Set();
    for (let s = 0; s < this.services; s++) {
      for (const { address, port } of this.#endpoints(s)) {
        lines.push(`${serviceName(s)} IN SRV 0 10 ${port} ${targetName(address)}.`);
        lines.push(`${serviceName(s)} IN A ${address}`);
        if (!targets.has(address)) lines.push(`${targetName(address)}. IN A ${address}`);
        targets.add(address);
      }
    }
    return this.#write('zone.db', [`${lines.join('\n')}\n`]);
  }

  /** Questions for every service, in random order. @returns the path of a file of dnsperf */
  questions(type) {
    return this.list(type, (s) => `${serviceName(s)}.${ZONE} ${type}`);
  }

  /** Questions for as many names that are not there. */
  absent() {
    return this.list('absent', (s) => `absent-${s}.${ZONE} A`);
  }

  /** SRV of every service, and A of targets, `count` in all. */
  mixed(count) {
    return this.list(
      'mixed',
      (i) =>
        i < this.services
          ? `${serviceName(i)}.${ZONE} SRV`
          : `${targetName(this.address(Math.floor((i - this.services) / this.each), (i - this.services) % this.each))} A`,
      count,
    );
  }

  list(name, question, count = Math.min(this.services, QUESTIONS)) {
    const questions = Array.from({ length: count }, (_, i) => question(i));
    shuffle(questions);
    return this.#write(`${name}.questions`, [`${questions.join('\n')}\n`]);
  }

  #endpoints(s) {
    return Array.from({ length: this.each }, (_, i) => {
      const address = this.address(s, i);
      return { id: `${serviceName(s)}-${i}`, address, port: this.port(s, i), weight: 10 };
    });
  }

  #write(file, parts) {
    const path = join(this.folder, file);
    writeFileSync(path, parts.join(''));
    return path;
  }
}

/** The same order in every run. */
function shuffle(items) {
  let seed = 0x2545f491;
  for (let i = items.length - 1; i > 0; i--) {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0;
    const j = seed % (i + 1);
    [items[i], items[j]] = [items[j], items[i]];
  }
}
