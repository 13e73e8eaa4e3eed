/** What a scenario expects, compared with what came. */
import { type Answer, canonical, type Question, recordText } from './client.js';
import { duration } from './duration.js';
import type { Expectation } from './scenario.js';
import { type Addresses, ids } from './services.js';
import { ZONE } from './settings.js';

/** Something is not as the scenario says. */
export class Mismatch extends Error {
  constructor(
    readonly what: string,
    readonly expected: unknown,
    readonly got: unknown,
  ) {
    super(what);
  }
}

export class AnswerExpectations {
  readonly #addresses: Addresses;

  constructor(addresses: Addresses) {
    this.#addresses = addresses;
  }

  /** Throws Mismatch when the answer is not as expected. What is not expected may be anything, but for the rcode. */
  compare(expected: Expectation, question: Question, answer: Answer): void {
    const told = `${question.name} ${question.type}`;
    same(`rcode of ${told}`, expected.rcode ?? 'NOERROR', answer.rcode);
    const service = serviceOf(question, question.name.endsWith(ZONE) ? ZONE : '');
    const got = answer.answers.map((rr) => this.#label(rr, question));
    const labels = (which: Parameters<typeof ids>[0]): string[] => {
      const wanted = ids(which, service);
      if (question.type === 'A' || question.type === 'AAAA') {
        return [...new Set(wanted.map((id) => this.#addresses.row(id).address))];
      }
      return wanted;
    };
    if (expected.answers !== undefined) sameSet(`answers of ${told}`, labels(expected.answers), got);
    if (expected.count !== undefined) same(`number of answers of ${told}`, expected.count, got.length);
    if (expected.atLeast !== undefined && got.length < expected.atLeast) {
      throw new Mismatch(`answers of ${told}`, `at least ${expected.atLeast}`, got);
    }
    const missing = labels(expected.includes ?? []).filter((label) => !got.includes(label));
    if (missing.length > 0) throw new Mismatch(`answers of ${told}`, `among others ${missing}`, got);
    const unwanted = labels(expected.excludes ?? []).filter((label) => got.includes(label));
    if (unwanted.length > 0) throw new Mismatch(`answers of ${told}`, `without ${unwanted}`, got);
    if (expected.records) sameSet(`records of ${told}`, expected.records, answer.answers.map(recordText));
    if (expected.authority) {
      const wanted = expected.authority === 'none' ? [] : expected.authority;
      sameSet(
        `authority of ${told}`,
        wanted,
        answer.authorities.map((rr) => `${rr.name} ${recordText(rr)}`),
      );
    }
    if (expected.additional) this.#compareAdditional(told, expected.additional, answer);
    if (expected.ttl !== undefined) {
      const ttls = [...answer.answers, ...answer.additionals, ...answer.authorities].map((rr) => rr.ttl);
      same(`TTLs of ${told}`, [duration(expected.ttl) / 1000], [...new Set(ttls)]);
    }
    if (expected.flags !== undefined)
      sameSet(`flags of ${told}`, expected.flags.split(' ').filter(Boolean), answer.flags);
    if (expected.ede !== undefined) {
      const { ede } = expected;
      const codes = ede === 'none' ? [] : [Array.isArray(ede) ? Number(ede[0]) : ede];
      same(
        `EDE of ${told}`,
        codes,
        answer.ede.map((one) => one.code),
      );
      const text = answer.ede[0]?.text ?? '';
      if (Array.isArray(ede) && !text.includes(String(ede[1]))) throw new Mismatch(`EDE text of ${told}`, ede[1], text);
      if (Buffer.byteLength(text) > 60) throw new Mismatch(`EDE text of ${told}`, 'at most 60 bytes (R26)', text);
    }
  }

  /** Each SRV target has its address in the additional section, or there is nothing there. */
  #compareAdditional(told: string, expected: 'none' | 'all', answer: Answer): void {
    const got = answer.additionals.map((rr) => `${rr.name} ${recordText(rr)}`);
    const wanted = new Set<string>();
    for (const rr of expected === 'none' ? [] : answer.answers) {
      const target = String(rr.target);
      const address = addressOfTarget(target);
      wanted.add(`${target} ${address.includes(':') ? 'AAAA' : 'A'} ${address}`);
    }
    sameSet(`additional of ${told}`, [...wanted], got);
  }

  /** How expectations name a record: an endpoint's id, an address for A and AAAA, else the record's text. */
  #label(rr: Answer['answers'][number], question: Question): string {
    if (question.type === 'A' || question.type === 'AAAA') return recordText(rr).split(' ')[1] ?? '';
    if (rr.type !== 33) return recordText(rr);
    const place = `${addressOfTarget(String(rr.target))}:${rr.port}`;
    const known = this.#addresses.idsAt(place);
    const service = serviceOf(question, ZONE);
    return known.find((id) => service !== undefined && id.startsWith(`${service}-`)) ?? known[0] ?? recordText(rr);
  }
}

/** `10-0-0-1.ip.svc.test` is 10.0.0.1 (R23). */
function addressOfTarget(target: string): string {
  const groups = (target.split('.')[0] ?? '').split('-');
  return groups.length === 8 ? canonical(groups.join(':')) : groups.join('.');
}

/** The service that a question below the zone is about: the last label without an underscore, or else the first one. */
export function serviceOf(question: Question, zone: string): string | undefined {
  if (zone === '' || !question.name.toLowerCase().endsWith(`.${zone}`)) return undefined;
  const labels = question.name
    .toLowerCase()
    .slice(0, -zone.length - 1)
    .split('.');
  const last = labels.at(-1) ?? '';
  return last.startsWith('_') ? (labels[0] ?? '').replace(/^_/, '') : last;
}

export function same(what: string, expected: unknown, got: unknown): void {
  if (JSON.stringify(expected) !== JSON.stringify(got)) throw new Mismatch(what, expected, got);
}

export function sameSet(what: string, expected: readonly string[], got: readonly string[]): void {
  same(what, [...expected].sort(), [...got].sort());
}

/** Objects by the keys that are expected, lists of texts as sets, everything else by value. */
export function subset(what: string, expected: unknown, got: unknown): void {
  if (Array.isArray(expected) && Array.isArray(got)) {
    sameSet(what, expected.map(String), got.map(String));
  } else if (typeof expected !== 'object' || expected === null) {
    same(what, expected, got);
  } else {
    for (const [key, value] of Object.entries(expected)) {
      subset(`${what}: ${key}`, value, (got as Record<string, unknown> | undefined)?.[key]);
    }
  }
}
