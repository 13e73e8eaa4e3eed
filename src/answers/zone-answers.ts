import type { ServiceView, ZoneAnswerState, ZoneSpec } from './contract.js';
import type { AnswerTable } from './table.js';

/** Compiles one zone's names into the table. */
export declare class ZoneAnswers {
  /** Answers nothing before the first `setState`; from then on the zone exists for readers. */
  constructor(table: AnswerTable, zoneIndex: number, spec: ZoneSpec);
  /** Adds or replaces a service. What did not change is not rewritten. */
  putService(view: ServiceView): void;
  removeService(label: string): void;
  /** `10-0-0-1.ip.ZONE` and its PTR, with the EDE of `status` when given. */
  putTarget(address: string, status?: number): void;
  removeTarget(address: string): void;
  setState(state: ZoneAnswerState): void;
  /** Takes the zone and all its names out of the table. */
  dispose(): void;
}
