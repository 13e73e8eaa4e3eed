/** Plays a scenario and says where, if anywhere, it went otherwise than written. */
import type { ReportedFailure } from '../../src/health/reports.js';
import type { RowState } from '../../src/registry/registry.js';
import { parseQuestion, type Question, recordText } from './client.js';
import { duration } from './duration.js';
import { AnswerExpectations, Mismatch, same, serviceOf, subset } from './expect.js';
import type { Scenario, Step } from './scenario.js';
import { Addresses, ids, numbers, parseNodes, parseService } from './services.js';
import { settings, ZONE } from './settings.js';
import { World } from './world.js';

export interface Failure {
  readonly where: string;
  readonly when: string;
  readonly what: string;
  readonly expected?: unknown;
  readonly got?: unknown;
  /** What happened just before. */
  readonly before: readonly string[];
}

interface Watch {
  readonly step: Step;
  readonly question: Question;
  readonly until: number;
  changes: number;
  last: string | undefined;
}

/** Something that the registry does at a later moment by itself. */
interface Later {
  readonly at: number;
  readonly act: () => void;
}

/** Null when all went as written. */
export function run(scenario: Scenario, onTrace?: (line: string) => void, deferring = false): Failure | null {
  const play = new Play(scenario);
  play.world.deferring = deferring;
  let step = scenario.steps[0] as Step;
  try {
    for (step of scenario.steps) play.step(step);
    play.end();
    return null;
  } catch (error) {
    const line = play.watchLine ?? step.line;
    const mismatch = error instanceof Mismatch ? { expected: error.expected, got: error.got } : {};
    return {
      where: `${scenario.file}:${line}`,
      when: play.when,
      what: error instanceof Mismatch ? error.what : String((error as Error).stack),
      ...mismatch,
      before: play.world.trace.slice(-15),
    };
  } finally {
    for (const line of play.world.trace) onTrace?.(line);
  }
}

class Play {
  readonly world: World;
  /** Line of the watch that just failed, if one did. */
  watchLine: number | undefined;
  readonly #scenario: Scenario;
  readonly #addresses = new Addresses();
  readonly #answers = new AnswerExpectations(this.#addresses);
  #config: Record<string, unknown>;
  #watches: Watch[] = [];
  #later: Later[] = [];
  #logSeen = 0;

  constructor(scenario: Scenario) {
    this.#scenario = scenario;
    this.#config = scenario.config;
    const config = settings(scenario.config, scenario.zones);
    this.world = new World(config, scenario.confirms, (place) => this.#addresses.idsAt(place));
    this.world.onMoment = () => this.#checkWatches();
  }

  get when(): string {
    return `${this.world.elapsed / 1000}s`;
  }

  step(step: Step): void {
    this.#advance(this.#moment(step.at) ?? this.world.elapsed);
    this.#act(step);
    this.#checkWatches();
    this.#expect(step);
  }

  #advance(to: number): void {
    for (let next = this.#later[0]; next && next.at <= to; next = this.#later[0]) {
      this.#later.shift();
      this.world.advance(next.at);
      next.act();
      this.#checkWatches();
    }
    this.world.advance(to);
  }

  #schedule(after: number, act: () => void): void {
    this.#later.push({ at: this.world.elapsed + after, act });
    this.#later.sort((a, b) => a.at - b.at);
  }

  end(): void {
    if (!this.world.targetsAgree()) {
      throw new Mismatch('targets told by events and targets asked for differ', 'the same', 'different sets');
    }
  }

  #moment(text: string | undefined): number | undefined {
    if (text === undefined) return undefined;
    const at = text.startsWith('+') ? this.world.elapsed + duration(text.slice(1)) : duration(text);
    if (at < this.world.elapsed) throw new Error(`at: ${text} is in the past: steps stand in order of time`);
    return at;
  }

  #act(step: Step): void {
    const { world } = this;
    if (step.reload) {
      this.#config = { ...this.#config, ...step.reload };
      world.reload(settings(this.#config, this.#scenario.zones));
    }
    const named = step.zone ?? ZONE;
    const zone = step.of === undefined ? named : `${named}/${step.of}`;
    const registry = world.registry(zone);
    for (const [glob, said] of Object.entries(step.probe ?? {})) {
      world.prober.behave(glob, said);
      world.note(`${glob}: probes ${[said].flat().join(', ')}`);
    }
    if (step.conntrack !== undefined) world.resolver.conntrack(step.conntrack, world.now);
    if (step.own !== undefined) world.resolver.verdicts.own = new Set(step.own);
    if (step.prober === 'dead') world.prober.die();
    if (step.prober === 'alive') world.prober.live(world.now.boot);
    if (step.gap) world.gap(duration(step.gap));
    if (step.wallStep) world.stepWall(signed(step.wallStep));
    if (step.restart) {
      world.note(`restart ${JSON.stringify(step.restart)}`);
      const { downFor, snapshot, wallStep } = step.restart;
      world.restart(duration(downFor), snapshot, undefined, false, signed(wallStep));
    }

    if (step.epoch !== undefined) registry.epoch = step.epoch;
    if (step.additionsOnly !== undefined) registry.removalsBelievable = !step.additionsOnly;
    if (step.rejected)
      registry.rejected = step.rejected.map((where) => ({ where, reason: 'rejected by the scenario' }));
    for (const [host, found] of Object.entries(step.resolve ?? {})) world.hosts.set(host, found);
    if (step.nodes) {
      registry.nodes = parseNodes(step.nodes);
      if (!step.list) world.list(zone);
    }
    if (step.list) {
      world.note(`registry lists ${JSON.stringify(step.list)}`);
      registry.services = new Map(
        Object.entries(step.list).map(([name, text]) => [name, parseService(name, text, this.#addresses)]),
      );
      world.list(zone);
    }
    if (step.change || step.gone) {
      world.note(`registry changes ${JSON.stringify({ ...step.change, gone: step.gone })}`);
      const services = Object.entries(step.change ?? {}).map(([name, text]) =>
        parseService(name, text, this.#addresses),
      );
      world.change(zone, services, step.gone ?? []);
    }
    if (step.drip) this.#drip(zone, step.drip);
    if (step.roll) this.#roll(zone, step.roll);
    if (step.release) world.release(zone, step.release);
    if (step.registry === 'confirmed') world.confirm(zone);
    else if (step.registry) {
      world.note(`registry: ${step.registry}`);
      world.setHeard(zone, step.registry, 'by the scenario');
    }
    for (const [id, said] of Object.entries(step.report ?? {})) {
      const { address, port, protocol } = this.#addresses.row(id);
      const [failure, times] = said.split(' x');
      const asked = step.zone === undefined ? {} : { service: `any.${step.zone}` };
      const one = { ...asked, address, port, protocol, failure: failure as ReportedFailure };
      world.note(`clients report ${id}: ${said}`);
      world.report(Array.from({ length: Number(times ?? 1) }, () => one));
    }
    if (step.flood !== undefined) world.flood(step.flood, named);
    if (step.drain) world.drain(step.drain, step.zone, false);
    if (step.undrain) world.drain(step.undrain, step.zone, true);
    if (step.accept) {
      const released = world.accept(step.accept, step.zone);
      if (step.released !== undefined) same('rows let go', step.released, released);
    }
    if (step.watch === 'none') this.#watches = [];
    else if (step.watch) {
      const until = this.#moment(step.until) ?? Number.POSITIVE_INFINITY;
      this.#watches.push({ step, question: parseQuestion(step.watch, named), until, changes: 0, last: undefined });
    }
  }

  /** Puts endpoints (by number) into a service's list in a new state, or takes them out of it. */
  #relist(
    zone: string,
    service: string,
    endpoints: readonly number[],
    to: 'gone' | RowState,
    rest: number[] = [],
  ): void {
    const numbered = new Set([...endpoints, ...rest].map((n) => `${service}-${n}`));
    const kept = (this.world.registry(zone).services.get(service)?.rows ?? []).filter((row) => !numbered.has(row.id));
    const put = to === 'gone' ? [] : endpoints.map((n) => `${n} ${to}`);
    const listing = parseService(service, put, this.#addresses);
    this.world.note(`registry: ${service} ${endpoints} ${to}${rest.length > 0 ? `, ${rest} gone` : ''}`);
    this.world.change(zone, [{ ...listing, rows: [...kept, ...listing.rows] }], []);
  }

  #drip(zone: string, drip: NonNullable<Step['drip']>): void {
    numbers(drip.endpoints).forEach((n, index) => {
      this.#schedule(index * duration(drip.every), () => this.#relist(zone, drip.service, [n], drip.to));
    });
    this.#advance(this.world.elapsed);
  }

  #roll(zone: string, roll: NonNullable<Step['roll']>): void {
    const fresh = numbers(roll.new);
    const gap = duration(roll.gap);
    numbers(roll.old).forEach((old, index) => {
      const add = [fresh[index] ?? 0];
      const begin = index * duration(roll.every);
      const adding = () => this.#relist(zone, roll.service, add, 'passing');
      const removing = () => this.#relist(zone, roll.service, [old], 'gone');
      if (gap === 0) {
        this.#schedule(begin, () => this.#relist(zone, roll.service, add, 'passing', [old]));
      } else {
        const newFirst = roll.order === 'new-first';
        this.#schedule(begin, newFirst ? adding : removing);
        this.#schedule(begin + gap, newFirst ? removing : adding);
      }
    });
    this.#advance(this.world.elapsed);
  }

  #checkWatches(): void {
    this.#watches = this.#watches.filter((watch) => this.world.elapsed <= watch.until);
    for (const watch of this.#watches) {
      const { step, question } = watch;
      this.watchLine = step.line;
      const answer = this.world.ask(question);
      this.#answers.compare(step, question, answer);
      const records = answer.answers.map(recordText).sort().join();
      if (watch.last !== undefined && watch.last !== records) watch.changes++;
      watch.last = records;
      if (step.maxChanges !== undefined && watch.changes > step.maxChanges) {
        throw new Mismatch(`changes of the answer to ${step.watch}`, `at most ${step.maxChanges}`, watch.changes);
      }
    }
    this.watchLine = undefined;
  }

  #expect(step: Step): void {
    const zone = step.zone ?? ZONE;
    const now = this.world.now;
    if (step.query) {
      const question = parseQuestion(step.query, zone);
      const began = this.world.elapsed;
      const answer = this.world.ask(question);
      if (step.waited !== undefined) same(`wait for ${step.query}`, duration(step.waited), this.world.elapsed - began);
      this.world.note(`${step.query}: ${answer.rcode} ${answer.answers.map(recordText).join(' | ')}`);
      this.#answers.compare(step, question, answer);
    }
    if (step.lookUps !== undefined) same('look-ups since the start (R33)', step.lookUps, this.world.lookUps);
    if (step.status) {
      const status = this.world.resolver.zoneStatus(now).find((one) => one.name === zone);
      subset(`status of ${zone}`, step.status, status);
    }
    if (step.service) {
      const found = this.world.resolver.services().find((one) => one.zone === zone && one.name === step.service?.name);
      subset(`service ${step.service.name}`, step.service, found);
    }
    if (step.suspects !== undefined) {
      const families = this.world.resolver.suspected(now.boot).map(({ family }) => family);
      same('suspected (R16)', step.suspects, families.join(' ') || 'none');
    }
    if (step.explain) {
      const question = parseQuestion(step.explain, zone);
      const told = this.world.resolver.explain(question.name, question.type, now);
      if (step.outcome !== undefined) same(`outcome of ${step.explain}`, step.outcome, told.outcome);
      const rows = Object.fromEntries(
        told.endpoints.map((one) => [one.id, `${one.word} ${one.probe} ${one.answered ? 'answered' : 'out'}`]),
      );
      if (step.because !== undefined && !told.because.some((one) => one.includes(step.because!))) {
        throw new Mismatch(`reasons of ${step.explain}`, step.because, told.because);
      }
      for (const [key, expected] of Object.entries(step.rows ?? {})) {
        for (const id of ids(key, serviceOf(question, zone))) same(`explanation of ${id}`, expected, rows[id]);
      }
    }
    if (step.log || step.noLog) {
      const seen = this.world.log.slice(this.#logSeen).map((line) => line.event);
      this.#logSeen = this.world.log.length;
      for (const event of [step.log ?? []].flat()) {
        if (!seen.includes(event)) throw new Mismatch('log since the last look', event, seen);
      }
      for (const event of [step.noLog ?? []].flat()) {
        if (seen.includes(event)) throw new Mismatch('log since the last look', `no ${event}`, seen);
      }
    }
  }
}

function signed(text: string): number {
  return text.startsWith('-') ? -duration(text.slice(1)) : duration(text.replace(/^\+/, ''));
}
