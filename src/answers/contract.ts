/** What the control thread hands to the answers, and in which words. Implemented by zone-answers.ts. */
import type { Row } from '../registry/registry.js';
import type { Ms } from '../system/clock.js';

/** An Extended DNS Error (RFC 8914) to go with an answer. `text` is at most 60 bytes (R26). */
export interface Ede {
  readonly code: number;
  readonly text?: string;
}

/** Fixed facts of a zone, from the configuration. */
export interface ZoneSpec {
  /** Lower case, no trailing dot. */
  readonly name: string;
  readonly naming: 'rfc2782' | 'consul';
  /** Of `naming: consul`, the first one's names need not say it. */
  readonly datacenters?: readonly string[];
  /** Names that the zone cannot know are handed over, for the registry's own name server. */
  readonly handsOver?: boolean;
  /** R33: its registry is on demand, so a name that is not known may exist all the same. */
  readonly looksUp?: boolean;
  readonly answerTtl: Ms;
  readonly negativeTtl: Ms;
  readonly allow: readonly string[];
  /** Indexes into the resolver's listen addresses; absent: all (R31). */
  readonly listen?: readonly number[];
  /** Addresses of the zone's name server, for the NS record's target. */
  readonly nameservers: readonly string[];
}

/** One service as the answers see it. */
export interface ServiceView {
  /** Its name below the zone: one lower-case letter-digit-hyphen label (R22). */
  readonly label: string;
  /** Every row that the catalog has of it, held-back ones too: they make names exist (R25). */
  readonly rows: readonly Row[];
  /** The rows to answer out of a narrowed set (all rows, one tag's, one port's): R10, R12 and the floor (R11). */
  answer(subset: readonly Row[]): readonly Row[];
  readonly order: 'weighted' | 'stable';
  readonly maxAnswers?: number;
  /** A status slot of the table (see AnswerTable.setStatus): which EDE goes with its answers. */
  readonly status: number;
  /** As `status`, for names of which nothing may be answered although they have rows: SERVFAIL with its EDE 22 (R19). */
  readonly withheld: number;
  /** A slot from `AnswerTable.allocAsked`: marked when one of its names is asked. */
  readonly asked?: number;
}

/** What a zone as a whole answers with. */
export interface ZoneAnswerState {
  /** False until the first list or a snapshot: names that fit a form are SERVFAIL with EDE 14 (R25). */
  readonly synced: boolean;
  /** Target names are still being put after a start: one that is not found may yet exist. */
  readonly targetsPending?: boolean;
  /** Goes with NXDOMAIN: EDE 19 while the registry is not heard (R25). */
  readonly negative?: Ede;
  /** Unix time of the zone's last change, in seconds: the SOA serial (R27). */
  readonly serial: number;
  /** The strings of the TXT record at `_status.ZONE`. */
  readonly statusText: readonly string[];
}
