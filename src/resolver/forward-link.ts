/** The process's side of forwarding: its settings out of the configuration, resolv.conf while it changes, its status. */
import type { ForwardStatus } from '../admin/documents.js';
import { showListen } from '../config/addresses.js';
import type { Config, ForwardConfig, ListenAddress } from '../config/types.js';
import { Forwarder } from '../forward/forwarder.js';
import { RESOLV_CONF_BYTES, readResolvConf, withoutScope } from '../forward/resolv-conf.js';
import type { AgentSettings, ForwarderSettings } from '../forward/settings.js';
import type { Upstream } from '../forward/upstreams.js';
import type { HostFound } from '../registry/registry-hosts.js';
import { allowed, allows } from '../server/acl.js';
import type { ForwardSettings } from '../server/answer-server.js';
import type { KeptAnswer } from '../server/kept-answers.js';
import { planSockets } from '../server/listen-plan.js';
import { OwnAddresses } from '../server/own-addresses.js';
import type { Clock, Ms } from '../system/clock.js';
import { readRegular, readRegularLater } from '../system/regular-file.js';
import type { Log } from './events.js';
import { HostLookup } from './host-lookup.js';
import type { HostResult } from './host-table.js';
import { HostsLink } from './hosts-link.js';

const MAX_UDP_BYTES = 1_232;
/** resolv.conf is looked at, and upstreams that looped are asked again, this often. */
const LOOK_MS: Ms = 5_000;
const LOOPS_EVERY = 12;

type ForwardPart = Omit<ForwardConfig, 'allow'>;
/** Only names of zones with `agentDns` are asked elsewhere. */
const NOTHING: ForwardPart = { upstreams: [], domains: [], cacheSize: 4 * 1024 * 1024, maxStale: 86_400_000 };

function agentsOf({ zones, listen }: Config): ForwarderSettings['agents'] {
  return [...new Set(zones.map(({ name }) => name))].flatMap((domain): AgentSettings[] => {
    const views = zones.filter(({ name }) => name === domain);
    const upstreams = views[0]?.agentDns ?? [];
    if (upstreams.length === 0) return [];
    if (views.some((view) => view.listen === undefined)) return [{ domain, upstreams }];
    const addresses = new Set(views.flatMap((view) => view.listen!.map(showListen)));
    const on = listen.flatMap((address, i) => (addresses.has(showListen(address)) ? [i] : []));
    return [{ domain, upstreams, listen: on }];
  });
}

/** Those that keep answers of upstreams. */
export interface AnswerThreads {
  /** What they keep must not be given any more. */
  readonly forget: () => void;
  /** They may give it again by themselves, in place of what they have of that name. */
  readonly keep: (answer: KeptAnswer) => void;
}

export class ForwardLink {
  /** R28: told of every host name that `look` was asked for. */
  found: (host: string, result: HostResult) => void = () => undefined;
  readonly #lookup: HostLookup;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #own = new OwnAddresses();
  #config: Config;
  #forwarder: Forwarder | undefined;
  /** Servers that resolv.conf named, and its text. */
  #found: readonly ListenAddress[] = [];
  #read: string | undefined;
  #reading = false;
  #fault: string | undefined;
  #failing = false;
  #timer: NodeJS.Timeout | undefined;
  #looks = 0;
  #hosts: HostsLink | undefined;
  readonly #threads: AnswerThreads;

  constructor(config: Config, log: Log, clock: Clock, threads: AnswerThreads) {
    this.#config = config;
    this.#threads = threads;
    this.#log = log;
    this.#clock = clock;
    this.#lookup = new HostLookup({
      forward: () => (this.#config.forward === undefined ? undefined : this.#forwarder?.answer),
      now: () => this.#clock.now().boot,
      isOurs: (address) => this.#isOurs(address),
      found: (host, result) => this.found(host, result),
    });
    this.#take(config);
  }

  /** For the answer server; undefined while nothing is forwarded. */
  get settings(): ForwardSettings | undefined {
    const forwarder = this.#forwarder;
    if (forwarder === undefined) return undefined;
    const { answer, outages } = forwarder;
    return { allow: this.#config.forward?.allow ?? [], answer, outages };
  }

  /** Once the sockets answer: a loop can be seen from now on. */
  start(): void {
    this.#forwarder?.checkLoops(false);
    this.#timer ??= setInterval(() => void this.look(), LOOK_MS);
    this.#hosts?.start();
  }

  reload(config: Config): void {
    this.#config = config;
    this.#take(config);
    this.#hosts?.start();
    this.#forwarder?.checkLoops(false);
  }

  /** R28: looks host names up, in the background. */
  lookUp(hosts: readonly string[]): void {
    this.#lookup.look(hosts);
  }

  /** D51: what a registry's own host name is, by whoever is asked for other names. */
  async hostOf(host: string): Promise<HostFound> {
    if (!this.#lookup.canAsk) return { kind: 'nobody' };
    return this.#lookup.resolve(host);
  }

  stop(): void {
    this.#lookup.stop();
    this.#hosts?.stop();
    clearInterval(this.#timer);
    this.#forwarder?.close();
  }

  /** Undefined while nothing is forwarded. */
  status(): ForwardStatus | undefined {
    const forwarder = this.#forwarder;
    if (forwarder === undefined) return undefined;
    const upstreams = forwarder.groups().flatMap(({ domain, group }) =>
      group.upstreams.map((upstream) => ({
        address: showListen(upstream.address),
        ...(domain === undefined ? {} : { domain }),
        state: this.#stateOf(upstream),
        queries: upstream.queries,
        failures: upstream.failures,
        forged: upstream.forged,
        ...(upstream.lastError === undefined ? {} : { lastError: upstream.lastError }),
      })),
    );
    const hosts = this.#hosts && {
      file: this.#hosts.path,
      names: this.#hosts.hosts.addresses.size,
      ignored: this.#hosts.hosts.ignored,
    };
    return { upstreams, ...(hosts ? { hosts } : {}), cache: forwarder.cache, counts: { ...forwarder.counts } };
  }

  /** What is wrong, a sentence each. */
  problems(): string[] {
    const problems = [this.#fault, this.#hosts?.fault].filter((fault) => fault !== undefined);
    for (const { domain, group } of this.#forwarder?.groups() ?? []) {
      const what = domain === undefined ? 'other names' : `names in ${domain}`;
      for (const upstream of group.upstreams) {
        if (this.#stateOf(upstream) === 'loop')
          problems.push(
            `forwarding: ${showListen(upstream.address)} passes questions back to this server; it is not asked`,
          );
      }
      if (group.upstreams.length > 0 && group.failing)
        problems.push(`forwarding: no upstream answers; ${what} come from the cache or fail`);
    }
    return problems;
  }

  #stateOf(upstream: Upstream): 'up' | 'down' | 'loop' {
    if (upstream.loop || this.#isOurs(upstream.address)) return 'loop';
    return upstream.down ? 'down' : 'up';
  }

  #take(config: Config): void {
    const { forward } = config;
    this.#own.setPlans(planSockets(config.listen));
    this.#fault = undefined;
    this.#lookup.configure(
      config.bootstrap ?? [],
      config.zones.map((zone) => zone.name),
    );
    this.#followHosts(forward?.hosts);
    if (forward === undefined && agentsOf(config).length === 0) {
      this.#forwarder?.close();
      this.#forwarder = undefined;
      return;
    }
    if (forward?.resolvConf !== undefined) this.#readResolvConf(forward.resolvConf);
    const settings = this.#settingsOf(config, forward ?? NOTHING);
    if (this.#forwarder === undefined) this.#forwarder = new Forwarder(settings);
    else this.#forwarder.reconfigure(settings);
  }

  #settingsOf(config: Config, { upstreams, domains, resolvConf, cacheSize, maxStale }: ForwardPart): ForwarderSettings {
    const recursion = config.forward && allowed(config.forward.allow);
    return {
      recurses: (peer) => recursion !== undefined && allows(recursion, peer),
      upstreams: resolvConf === undefined ? upstreams : this.#found,
      domains,
      agents: agentsOf(config),
      ...(this.#hosts ? { hosts: this.#hosts.hosts } : {}),
      zones: config.zones.map((zone) => zone.name),
      cacheBytes: cacheSize,
      maxStale,
      maxUdp: MAX_UDP_BYTES,
      now: () => this.#clock.now().boot,
      isOurs: (address) => this.#isOurs(address),
      renewed: this.#threads.keep,
    };
  }

  #followHosts(path: string | undefined): void {
    if (this.#hosts?.path === path) return;
    this.#hosts?.stop();
    this.#hosts =
      path === undefined
        ? undefined
        : new HostsLink(path, this.#log, () => {
            const { forward } = this.#config;
            if (forward) this.#forwarder?.reconfigure(this.#settingsOf(this.#config, forward));
            this.#threads.forget();
          });
  }

  #isOurs({ address, port }: ListenAddress): boolean {
    return this.#own.suspect(port) && this.#own.has(withoutScope(address), port, this.#clock.now().boot);
  }

  /** At a start and a reload, where there is no time to wait in turn. */
  #readResolvConf(path: string): void {
    try {
      this.#takeServers(path, readRegular(path, RESOLV_CONF_BYTES).toString('utf8'));
    } catch (error) {
      this.#takeServers(path, error as Error);
    }
  }

  /** What cannot be read, or names nobody, changes nothing. */
  #takeServers(path: string, read: string | Error): void {
    this.#read = read instanceof Error ? undefined : read;
    this.#fault = undefined;
    const found = read instanceof Error ? [] : readResolvConf(read).filter((server) => !this.#isOurs(server));
    if (found.length > 0) this.#found = found;
    else if (read instanceof Error) this.#fault = `forwarding: ${path} cannot be read: ${read.message}`;
    else this.#fault = `forwarding: ${path} names no server but this host's own`;
  }

  /** Takes in what has changed meanwhile; on a timer from `start` on. */
  async look(): Promise<void> {
    this.#tellOfFailing();
    if (this.#looks++ % LOOPS_EVERY === LOOPS_EVERY - 1) this.#forwarder?.checkLoops(true);
    const path = this.#config.forward?.resolvConf;
    if (path === undefined || this.#reading) return;
    this.#reading = true;
    const read = await readRegularLater(path, RESOLV_CONF_BYTES).then(String, (error: Error) => error);
    this.#reading = false;
    const { forward } = this.#config;
    if (forward?.resolvConf !== path || read === this.#read) return;
    const before = this.#found;
    this.#takeServers(path, read);
    if (before === this.#found) return;
    this.#forwarder?.reconfigure(this.#settingsOf(this.#config, forward));
    this.#log('info', 'forward-upstreams', { file: path, upstreams: this.#found.map(showListen) });
    this.#forwarder?.checkLoops(false);
  }

  /** One line when it begins and one when it is over. */
  #tellOfFailing(): void {
    const failing = (this.#forwarder?.groups() ?? []).some(({ group }) => group.upstreams.length > 0 && group.failing);
    if (failing === this.#failing) return;
    this.#failing = failing;
    if (failing) this.#log('warn', 'forward-failing', { problems: this.problems() });
    else this.#log('info', 'forward-recovered', {});
  }
}
