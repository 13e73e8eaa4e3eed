/**
 * What tells of all services of a datacenter at once, and costs Consul a tenth of a second in a large one: the list of
 * all checks, where a check came or went with what changed, and the summary of its own interface. Each says which
 * services are to be read; which of the two is asked first, and when, depends on what they cost.
 */
import type { Ms } from '../system/clock.js';
import { ChangedPartOf } from './changed-part.js';
import { AllChecks } from './consul-all-checks.js';
import { CostPace } from './consul-cost-pace.js';
import { later } from './consul-findings.js';
import { type ListReply, type ListSource, readList } from './consul-list.js';
import type { ConsulMirror } from './consul-mirror.js';
import { NO_STATE } from './consul-progress.js';
import type { ConsulReader } from './consul-reader.js';
import { readSummary, SUMMARY_PATH, SummaryPace } from './consul-summary.js';
import { isFailure } from './http-failure.js';
import { parseBody } from './json-brackets.js';

export const CHECKS_PATH = 'health/state/any';

/** Services that one answer may have read. */
const MANY = 200;
/** A change among many is answered within a second. */
const TRACE_SHARE = 1 / 3;
/** Measured: with more of a list of checks for each instance, the summary takes less of Consul's time. */
const MOST_BYTES = 550;
/** A host or a server is busy at times: the least of so many counts. */
const MEASURED = 4;
const NEVER = Number.POSITIVE_INFINITY;

export interface OverviewOptions extends ListSource {
  readonly origin: () => string;
  readonly mirror: ConsulMirror;
  readonly reader: ConsulReader;
  /** Up to which index the states of checks are known. */
  readonly checksIndex: () => bigint;
  readonly nodesIndex: () => bigint;
  /** Takes in the list of all checks; returns what is wrong with it. */
  readonly takeAll: (reply: ListReply, began: Ms) => string | undefined;
}

export class ConsulOverview {
  readonly #options: OverviewOptions;
  readonly #all = new AllChecks();
  readonly #trace = new ChangedPartOf('Node');
  readonly #summaries = new ChangedPartOf('Name');
  readonly #tracePace = new CostPace(TRACE_SHARE);
  #summary = new SummaryPace();
  /** How long each took to be answered lately: the one that takes less is asked first. */
  readonly #traceTook: Ms[] = [];
  readonly #summaryTook: Ms[] = [];
  /** Of the list of all checks. */
  #bytes = 0;
  /** The index of all checks, as it was last seen. */
  checksSeen = 0n;
  /** The index of the services when that was last asked for. */
  #lookedAt = 0n;
  /** So long it may take to find out what became of checks that left a list of bad ones. */
  doubtUntil: Ms = 0;

  constructor(options: OverviewOptions) {
    this.#options = options;
  }

  /** Up to which index the list of all checks was taken in. */
  get allIndex(): bigint {
    return this.#all.index;
  }

  /** What could not be had may be shown to another token. */
  readAnew(): void {
    this.#summary = new SummaryPace();
  }

  /** The list of all checks was taken in. */
  tookAll({ index, bytes, filtered, took }: ListReply, began: Ms): void {
    const now = performance.now();
    this.#bytes = bytes.length;
    add(this.#traceTook, took);
    this.#all.took(index, began, now);
    this.#tracePace.took(began, now);
    // What is hidden says nothing of what went.
    this.#trace.keep(filtered ? undefined : bytes);
  }

  /** Nothing more is to be learnt from the summary. */
  get isSummed(): boolean {
    return this.#options.reader.plan.isSummed || !this.#summary.isOfUse(performance.now());
  }

  /** When something is to be read; in the past when it is now. */
  get due(): Ms {
    return Math.min(this.#traceDue, this.#summaryDue, this.#allDue);
  }

  /** Reads what is due; returns what is wrong with it. */
  async read(signal: AbortSignal): Promise<string | undefined> {
    const now = performance.now();
    if (this.#traceDue <= now) return await this.#readTrace(signal);
    if (this.#summaryDue > now) return await this.#readAll(signal);
    return (await this.#lookAtChecks(signal)) ? undefined : await this.#readSummary(signal);
  }

  /** How far the checks are, where their watch has not told it yet. Returns whether they are as far as the services. */
  async #lookAtChecks(signal: AbortSignal): Promise<boolean> {
    const { plan } = this.#options.reader;
    if (!this.#trace.isOfUse || this.checksSeen >= plan.index || this.#lookedAt === plan.index) return false;
    this.#lookedAt = plan.index;
    const reply = await readList(this.#options, this.#options.origin(), NO_STATE, undefined, signal);
    if (!isFailure(reply) && reply.index > this.checksSeen) this.checksSeen = reply.index;
    return this.checksSeen >= plan.index;
  }

  /** Which checks are others than they were: their services are read. That it cannot be had is no fault. */
  async #readTrace(signal: AbortSignal): Promise<string | undefined> {
    const { mirror, reader, origin, checksIndex } = this.#options;
    const { plan } = reader;
    const at = plan.index;
    const known = later(checksIndex(), at);
    const began = performance.now();
    const reply = await readList(this.#options, origin(), CHECKS_PATH, known, signal, true);
    if (signal.aborted) return undefined;
    plan.compared(at);
    // What is wrong with it the watches tell.
    if (isFailure(reply) || reply.doubt !== undefined || reply.filtered || reply.index < known) return undefined;
    add(this.#traceTook, reply.took);
    const changed = this.#trace.compare(reply.bytes);
    const services = changed && mirror.servicesOf(changed);
    this.#tracePace.took(began, performance.now());
    if (services === undefined) return this.#options.takeAll({ ...reply, body: parse(reply.bytes) }, began);
    if (services.size <= MANY) plan.want(services);
    else this.#trace.keep(undefined);
    return undefined;
  }

  /** Which services have other instances than those that are known. That it cannot be read is no fault. */
  async #readSummary(signal: AbortSignal): Promise<undefined> {
    const { plan } = this.#options.reader;
    const at = plan.index;
    const began = performance.now();
    const reply = await readList(this.#options, this.#options.origin(), SUMMARY_PATH, at, signal, true);
    if (signal.aborted) return;
    if (!isFailure(reply)) add(this.#summaryTook, reply.took);
    const usable = !isFailure(reply) && reply.doubt === undefined && !reply.filtered;
    const differ = usable ? this.#differing(reply.bytes) : undefined;
    const now = performance.now();
    this.#summary.took(began, now);
    plan.summed(at);
    if (differ === undefined) this.#summary.failed(now);
    else if (differ.size <= MANY) plan.want(differ);
    // So many are not found out about one by one.
    else this.#summaries.keep(undefined);
  }

  /** Undefined when it is no summary. */
  #differing(bytes: Buffer): Set<string> | undefined {
    const { mirror } = this.#options;
    const part = this.#summaries.compare(bytes);
    const [before, now] = [readSummary(part?.before), readSummary(part?.now)];
    if (before !== undefined && now !== undefined)
      return mirror.differing(
        now,
        before.map(({ name }) => name),
      );
    const whole = readSummary(parse(bytes));
    if (whole === undefined) this.#summaries.keep(undefined);
    return whole && mirror.differing(whole);
  }

  async #readAll(signal: AbortSignal): Promise<string | undefined> {
    const { reader, checksIndex, takeAll } = this.#options;
    const at = reader.plan.index;
    const began = performance.now();
    const reply = await readList(this.#options, this.#options.origin(), CHECKS_PATH, checksIndex(), signal);
    if (signal.aborted) return undefined;
    if (isFailure(reply)) return `${CHECKS_PATH}: ${reply.reason}`;
    const fault = reply.doubt === undefined ? takeAll(reply, began) : `${CHECKS_PATH}: ${reply.doubt}`;
    if (fault === undefined) reader.plan.compared(at);
    return fault;
  }

  /** The list of all checks may tell what changed, and for less than the summary. */
  get #traces(): boolean {
    const { mirror, reader, nodesIndex } = this.#options;
    const { plan } = reader;
    const mayTell = this.#trace.isOfUse && this.checksSeen >= plan.index && nodesIndex() < plan.index;
    if (!mayTell || plan.isCompared || mirror.doubted.length > 0) return false;
    return this.isSummed || this.#takesLess;
  }

  /** The list of all checks takes less to be answered than the summary. */
  get #takesLess(): boolean {
    if (this.#summaryTook.length === 0) return this.#bytes <= MOST_BYTES * this.#options.mirror.size;
    return Math.min(...this.#traceTook) <= Math.min(...this.#summaryTook);
  }

  get #traceDue(): Ms {
    const { plan, explainedBy, isBusy } = this.#options.reader;
    if (!plan.unexplained || isBusy || !this.#traces) return NEVER;
    return Math.max(explainedBy, this.#tracePace.due);
  }

  get #summaryDue(): Ms {
    const { plan, explainedBy, isBusy } = this.#options.reader;
    if (!plan.unexplained || isBusy || this.isSummed || this.#traces) return NEVER;
    return this.#summary.due(explainedBy);
  }

  get #allDue(): Ms {
    const { mirror, reader, checksIndex } = this.#options;
    const { plan, explainedBy, isBusy } = reader;
    const wanted = plan.unexplained && !plan.traceless && !isBusy && this.isSummed && !this.#traces;
    const unexplained = wanted ? explainedBy : NEVER;
    const doubted = mirror.doubted.length > 0 ? this.doubtUntil : NEVER;
    return this.#all.due(checksIndex(), Math.min(unexplained, doubted));
  }
}

function add(times: Ms[], took: Ms): void {
  times.push(took);
  if (times.length > MEASURED) times.shift();
}

function parse(bytes: Buffer): unknown {
  try {
    return parseBody(bytes);
  } catch {
    return undefined;
  }
}
