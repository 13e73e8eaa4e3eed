/** Which servers are asked for a name: those of its domain, a zone's agent, or those for all other names. */
import { nameToWire } from '../dns/names.js';
import { suffixes } from './question.js';
import type { ForwarderSettings } from './settings.js';
import { UpstreamGroup } from './upstreams.js';

/** Groups of which answer threads can be told that no upstream answers. */
const OUTAGE_WORDS = 1_024;

export interface Group {
  readonly domain: string | undefined;
  readonly group: UpstreamGroup;
}

export class Groups {
  /** Shared memory: 1 in the word of a group while none of its upstreams answers. */
  readonly outages = new Int32Array(new SharedArrayBuffer(OUTAGE_WORDS * 4));
  #settings: ForwarderSettings;
  #others: UpstreamGroup;
  /** By name in wire form. */
  #domains: ReadonlyMap<string, UpstreamGroup>;
  #zones: ReadonlySet<string>;
  /** By the zone's name in wire form. */
  #agents: ReadonlyMap<string, UpstreamGroup>;

  constructor(settings: ForwarderSettings) {
    this.#settings = settings;
    this.#others = new UpstreamGroup(settings.upstreams);
    this.#domains = groupsOf(settings.domains);
    this.#agents = groupsOf(settings.agents);
    this.#zones = new Set(settings.zones.map(wire));
    this.#publish();
  }

  /** What is known of upstreams stays, as far as they are the same. */
  reconfigure(settings: ForwarderSettings): void {
    const before = this.#settings;
    this.#settings = settings;
    if (!same(before.upstreams, settings.upstreams)) this.#others = new UpstreamGroup(settings.upstreams);
    if (!same(before.domains, settings.domains)) this.#domains = groupsOf(settings.domains);
    if (!same(before.agents, settings.agents)) this.#agents = groupsOf(settings.agents);
    this.#zones = new Set(settings.zones.map(wire));
    this.#publish();
  }

  /** For names in no domain. */
  get others(): UpstreamGroup {
    return this.#others;
  }

  /** All groups, the one for other names first, without a domain. */
  all(): Group[] {
    const agents = this.#settings.agents.map(({ domain }) => ({ domain, group: this.#agents.get(wire(domain))! }));
    return [...this.resolvers(), ...agents];
  }

  /** Those that are asked for any name: an agent that asks us for names that are not its own makes no loop. */
  resolvers(): Group[] {
    const domains = this.#settings.domains.map(({ domain }) => ({ domain, group: this.#domains.get(wire(domain))! }));
    return [{ domain: undefined, group: this.#others }, ...domains];
  }

  isAgents(group: UpstreamGroup | undefined): group is UpstreamGroup {
    for (const agents of this.#agents.values()) if (agents === group) return true;
    return false;
  }

  /** `name`: in wire form. Of the longest domain that it lies in; `ours` for one of our zones; undefined for any other name. */
  of(name: string, listen: number): UpstreamGroup | 'ours' | undefined {
    let found: UpstreamGroup | undefined;
    for (const suffix of suffixes(name)) {
      const agent = this.#agents.get(suffix);
      if (agent !== undefined && this.#isAskedOn(suffix, listen)) return agent;
      if (this.#zones.has(suffix)) return 'ours';
      found ??= this.#domains.get(suffix);
    }
    return found;
  }

  #isAskedOn(zone: string, listen: number): boolean {
    return this.#settings.agents.some(
      (agent) => wire(agent.domain) === zone && agent.listen?.includes(listen) !== false,
    );
  }

  /** Tells the threads which groups do not answer; from now on whenever that changes. */
  readonly #publish = (): void => {
    for (const [word, { group }] of this.all().entries()) {
      group.word = word;
      group.changed = this.#publish;
      if (word < OUTAGE_WORDS) Atomics.store(this.outages, word, group.failing ? 1 : 0);
    }
  };
}

export function same(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

function wire(name: string): string {
  return Buffer.from(nameToWire(name)!).toString('latin1');
}

function groupsOf(domains: ForwarderSettings['domains']): Map<string, UpstreamGroup> {
  return new Map(domains.map(({ domain, upstreams }) => [wire(domain), new UpstreamGroup(upstreams)]));
}
