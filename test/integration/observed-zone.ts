/** One zone of the real resolver with the real sync loop and adapter of its registry, in this process. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { ZoneStatus } from '../../src/admin/documents.js';
import { parseConfig } from '../../src/config/load.js';
import { openAdapter } from '../../src/registry/open.js';
import type { Report } from '../../src/registry/registry.js';
import { SyncLoop } from '../../src/registry/sync.js';
import { Resolver } from '../../src/resolver/resolver.js';
import { COUNTER_WORDS } from '../../src/server/counters.js';
import { NEEDS_CONTROL, Responder } from '../../src/server/respond.js';
import { bootClock } from '../../src/system/boot-clock.js';
import { decodeAnswer, encodeQuery, parseQuestion, recordText } from '../scenario-engine/client.js';

const ZONE = 'svc.test';
const LOOK_MS = 25;
/** Long enough for the deadline of a list that hangs, on a machine that is busy. */
const PATIENCE_MS = 40_000;
const CLIENT = { family: 4 as const, bytes: Uint8Array.of(127, 0, 0, 1), offset: 0 };

export class ObservedZone {
  /** Everything that the adapter reported. */
  readonly reports: Report[] = [];
  readonly logged: string[] = [];
  /** Of a registry on demand, with what they brought. */
  readonly lookUps: string[] = [];
  readonly #resolver: Resolver;
  readonly #responder: Responder;
  readonly #loop: SyncLoop;
  readonly #out = new Uint8Array(65_535);
  readonly #clock = bootClock();
  /** What has to be answered at every look. */
  #known: Readonly<Record<string, readonly string[]>> = {};
  readonly #timer: NodeJS.Timeout;

  /**
   * @param registry as the configuration has it, in braces
   * @param more a line of the zone
   */
  constructor(registry: string, softTtl = '2s', more = '') {
    const text = `version: 1
zones:
  - name: ${ZONE}
    registry: ${registry}
    softTtl: ${softTtl}
    check: { type: none }
    allowAddresses: ["127.0.0.0/8"]
    ${more}
`;
    const config = parseConfig(text, '/etc/holdfast/holdfast.yaml');
    const zone = config.zones[0]!;
    this.#resolver = new Resolver(
      config,
      {
        log: (_level, event, fields) => this.logged.push(`${event} ${JSON.stringify(fields)}`),
        targets: () => undefined,
        probeNow: () => undefined,
        lookUp: (_zone, service) => void this.#lookUp(service),
        know: (_zone, add, drop) => this.#loop.know(add, drop),
      },
      this.#clock.now(),
    );
    const { table } = this.#resolver;
    const options = { maxUdp: 1232, tcpMax: 65_535, reader: table.addReader(), seed: 1 };
    this.#responder = new Responder(table.share(), new Uint32Array(COUNTER_WORDS), options);
    table.onChange = () => this.#responder.update(table.share());
    this.#loop = new SyncLoop(openAdapter(zone.registries[0]!, zone), {
      clock: this.#clock,
      random: Math.random,
      limits: zone.limits,
      emit: (report) => {
        this.reports.push(report);
        this.#resolver.report(ZONE, 0, report, this.#clock.now());
      },
      watchFailed: (reason) => this.logged.push(`watch-failed ${reason}`),
      renewed: (files) => this.logged.push(`credentials-changed ${files.join()}`),
    });
    this.#timer = setInterval(() => this.#resolver.tick(this.#clock.now()), 100);
    this.#loop.adapter.onDemand?.order(this.#resolver.knownServices()[ZONE] ?? []);
    this.#loop.start(false);
  }

  async #lookUp(service: string): Promise<void> {
    await this.#loop.lookUp(service, (found) => {
      this.lookUps.push(`${service} ${found.kind}`);
      this.#resolver.lookedUp(ZONE, service, found, this.#clock.now());
    });
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#loop.stop();
  }

  get status(): ZoneStatus {
    return this.#resolver.zoneStatus(this.#clock.now())[0]!;
  }

  /** The addresses of a service, sorted; the response code when it is an error; `waits` for a look-up. */
  addresses(service: string): readonly string[] {
    const question = parseQuestion(`${service} A`, ZONE);
    const query = encodeQuery(1, question);
    this.#responder.beginBatch();
    const length = this.#responder.respond(query, query.length, CLIENT, 0, 'tcp', this.#out);
    this.#responder.endBatch();
    let reply: Uint8Array | undefined = length > 0 ? this.#out.subarray(0, length) : undefined;
    if (length === NEEDS_CONTROL) {
      const foreign = { query, transport: 'tcp' as const, peer: CLIENT, listen: 0 };
      this.#resolver.lookUps.answer(foreign, (message) => (reply = message), this.#clock.now());
    }
    if (reply === undefined) return ['waits'];
    const answer = decodeAnswer(query, question, reply);
    if (answer.rcode !== 'NOERROR') return [answer.rcode];
    return answer.answers.map((record) => recordText(record).split(' ').at(-1)!).sort();
  }

  /** From now on each look has to find these answers. */
  hold(known: Readonly<Record<string, readonly string[]>>): void {
    this.#known = known;
    this.look();
  }

  look(): void {
    for (const [service, addresses] of Object.entries(this.#known)) {
      assert.deepEqual(this.addresses(service), addresses, `${service} is not answered as before`);
    }
  }

  /** Looks until something holds. Returns how long it took, in ms. */
  async until(what: string, holds: () => boolean, patience = PATIENCE_MS): Promise<number> {
    const start = performance.now();
    for (;;) {
      this.look();
      if (holds()) return performance.now() - start;
      if (performance.now() - start > patience) {
        const { state, heard, reason } = this.status;
        throw new Error(`not within ${patience / 1000} s: ${what} (${state}, ${heard ? 'heard' : reason})`);
      }
      await sleep(LOOK_MS);
    }
  }

  /** Looks for so long. */
  async pass(ms: number): Promise<void> {
    const start = performance.now();
    while (performance.now() - start < ms) {
      this.look();
      await sleep(LOOK_MS);
    }
  }
}
