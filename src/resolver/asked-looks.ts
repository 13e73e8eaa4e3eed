/** R3, R17: what is asked, as the marks of the answer table tell: all of it once in a while, or what is asked just now. */
import type { AnswerTable } from '../answers/table.js';
import type { Asked } from './zone-asked.js';

export class AskedLooks<Zone extends { readonly key: string }> {
  /** What each mark is about, by its slot. */
  readonly of = new Map<number, Asked<Zone>>();
  readonly #table: AnswerTable;
  /** Slots that were asked, and were not told by `take` yet. */
  #glimpsed: readonly number[] = [];

  constructor(table: AnswerTable) {
    this.#table = table;
  }

  /** What was asked since this was last called, each service once. */
  *take(): Generator<Asked<Zone>> {
    const slots = new Set([...this.#glimpsed, ...this.#table.takeAsked()]);
    this.#glimpsed = [];
    for (const slot of slots) {
      const asked = this.of.get(slot);
      if (asked !== undefined) yield asked;
    }
  }

  /** The services that were asked since this or `take` was last called, by the zone's key. */
  glimpse(): Map<string, string[]> {
    const names = new Map<string, string[]>();
    const slots = this.#table.takeAsked();
    this.#glimpsed = [...new Set([...this.#glimpsed, ...slots])];
    for (const slot of slots) {
      const { zone, service } = this.of.get(slot) ?? {};
      if (zone === undefined || service === undefined) continue;
      const known = names.get(zone.key);
      if (known === undefined) names.set(zone.key, [service.name]);
      else known.push(service.name);
    }
    return names;
  }
}
