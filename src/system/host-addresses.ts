/** The addresses that lead back to this host. */
import { readFileSync } from 'node:fs';
import { networkInterfaces } from 'node:os';

type Interfaces = () => NodeJS.Dict<readonly { readonly address: string }[]>;

export class HostAddresses {
  readonly #interfaces: Interfaces;
  readonly #isCut: (name: string) => boolean;
  #known = new Map<string, readonly string[]>();

  /** @param isCut whether an interface is there and has no carrier */
  constructor(interfaces: Interfaces = networkInterfaces, isCut = hasNoCarrier) {
    this.#interfaces = interfaces;
    this.#isCut = isCut;
  }

  /** All of them, without a scope: also those of an interface that was cut off, which Node tells no more. */
  look(): ReadonlySet<string> {
    const told = Object.entries(this.#interfaces());
    const cut = [...this.#known].filter(([name]) => this.#isCut(name));
    this.#known = new Map([
      ...cut,
      ...told.map(([name, all = []]) => [name, all.map(({ address }) => address)] as const),
    ]);
    return new Set([...this.#known.values()].flat());
  }
}

function hasNoCarrier(name: string): boolean {
  try {
    // An address may have a label, behind a colon. One that is down altogether cannot be read.
    return readFileSync(`/sys/class/net/${name.replace(/:.*/, '')}/carrier`, 'utf8').trim() === '0';
  } catch {
    return false;
  }
}
