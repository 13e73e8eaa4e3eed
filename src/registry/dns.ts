/** Another name server as a registry: a whole zone by transfer, or names that are looked up. */
import { setMaxListeners } from 'node:events';
import { showListen } from '../config/addresses.js';
import type { Cidr, DnsRegistryConfig, LimitsConfig } from '../config/types.js';
import { RCODE } from '../dns/constants.js';
import type { Message } from '../dns/read-message.js';
import type { Ms } from '../system/clock.js';
import type { Adapter, Failure, Observation, PollContext } from './adapter.js';
import { CredentialFiles } from './credential-files.js';
import { type Asking, askServer, rcodeFailure } from './dns-exchange.js';
import { DnsLookups } from './dns-lookups.js';
import { listenForNotify } from './dns-notify.js';
import { DnsTransfer, TRANSFER_MS } from './dns-transfer.js';
import type { TsigKey } from './dns-tsig.js';
import { registryIdentity } from './identity.js';
import { Members } from './members.js';
import { SHARED_PACE } from './pace.js';
import type { SeenRevision } from './revision-memory.js';
import { AddressPolicy } from './rows.js';
import { readTsigKey } from './tsig-key.js';

export interface DnsRegistryOptions {
  readonly softTtl: Ms;
  readonly limits: LimitsConfig;
  readonly allowAddresses: readonly Cidr[];
}

/** For one question, and a little more. */
const ROUND_MS: Ms = 10_000;
/** Of a name, of an address of either kind, and of the serial. */
const QUESTIONS_A_NAME = 4;
/** For each name with its targets, beside what a slow server costs: other zones may ask the same server. */
const NAME_MS: Ms = 1_000;
/** For what was found to be told. */
const TELL_MS: Ms = 1_000;

export class DnsRegistry implements Adapter {
  readonly identity: string;
  readonly interval: Ms;
  readonly deadline: Ms;
  readonly pace = SHARED_PACE;
  readonly credentials: CredentialFiles;
  readonly #config: DnsRegistryConfig;
  readonly #transfer: DnsTransfer | undefined;
  readonly #lookups: DnsLookups | undefined;
  readonly #members: Members;
  #endNotify: (() => void) | undefined;

  constructor(config: DnsRegistryConfig, { softTtl, limits, allowAddresses }: DnsRegistryOptions) {
    const { servers, zone, names, port } = config;
    this.identity = registryIdentity(config);
    this.interval = config.interval;
    this.credentials = new CredentialFiles(config.tsigKeyFile, {}, () => this.#transfer?.readAnew());
    this.#config = config;
    this.#members = new Members(servers.map(showListen));
    const policy = new AddressPolicy(allowAddresses, false);
    if (names === undefined) {
      this.deadline = servers.length * (ROUND_MS + TRANSFER_MS);
      const mono = (): Ms => performance.now();
      this.#transfer = new DnsTransfer({ servers, zone, port, policy, limits, mono });
    } else {
      // Within `softTtl` all have their turn that share the server, by the check of the configuration.
      const turns = Math.max(softTtl, names.length * NAME_MS);
      this.deadline = servers.length * QUESTIONS_A_NAME * ROUND_MS + turns;
      this.#lookups = new DnsLookups({ names, port, policy });
    }
  }

  watch(wake: () => void, failed: (reason: string) => void): void {
    const { notify: listen, servers, zone } = this.#config;
    if (listen === undefined) return;
    const key = (): Promise<TsigKey | Failure | undefined> => this.#key();
    this.#endNotify = listenForNotify({ listen, servers, zone, key, changed: wake, failed });
  }

  /** Names that are looked up have no revision. */
  seed(seen: SeenRevision): void {
    this.#transfer?.seed(seen);
  }

  close(): void {
    this.#endNotify?.();
    this.#endNotify = undefined;
  }

  async poll(context: PollContext): Promise<Observation | Failure> {
    const key = await this.#key();
    if (key !== undefined && 'reason' in key) return key;
    if (this.#transfer !== undefined) return this.#zone(this.#transfer, context, key);
    return this.#names(this.#lookups!, context.signal, key);
  }

  /** What is known shortly before the deadline is told: one name may have more targets than there is time for. */
  async #names(lookups: DnsLookups, whole: AbortSignal, key?: TsigKey): Promise<Observation | Failure> {
    const late = new AbortController();
    const end = (): void => late.abort();
    const timer = setTimeout(end, this.deadline - TELL_MS);
    whole.addEventListener('abort', end);
    const { signal } = late;
    // As many questions as are under way listen to it.
    setMaxListeners(0, signal);
    const found = await lookups.read((name, type, configured) => {
      return this.#ask({ name, type, key, signal, turn: 'later' }, configured);
    });
    clearTimeout(timer);
    whole.removeEventListener('abort', end);
    return found;
  }

  /** Shared with all servers. */
  async #key(): Promise<TsigKey | Failure | undefined> {
    const { tsigKeyFile } = this.#config;
    return tsigKeyFile === undefined ? undefined : readTsigKey(tsigKeyFile);
  }

  /** The zone from the first server that has something new, or confirms what is known. */
  async #zone(transfer: DnsTransfer, context: PollContext, key?: TsigKey): Promise<Observation | Failure> {
    const behind: number[] = [];
    const failures = new Map<number, Failure>();
    for (const index of this.#members.inTurn()) {
      if (context.signal.aborted) break;
      const result = await transfer.read(this.#config.servers[index]!, context, key);
      if (result.kind === 'behind') behind.push(result.serial);
      else if ('reason' in result) failures.set(index, result);
      else {
        this.#members.answered(index);
        return result;
      }
    }
    if (behind.length > 0) return transfer.behind(behind);
    return this.#members.together(failures);
  }

  async #ask(question: Omit<Asking, 'server'>, configured = false): Promise<Message | Failure> {
    let denial: Message | undefined;
    const reply = await this.#members.ask(question.signal, async (index) => {
      const own = await askServer({ ...question, server: this.#config.servers[index]! });
      if (!configured || 'reason' in own || own.rcode !== RCODE.NXDOMAIN) return own;
      denial = own;
      return rcodeFailure(own.rcode);
    });
    return 'reason' in reply ? (denial ?? reply) : reply;
  }
}
