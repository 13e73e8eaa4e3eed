/** The records that a zone has of its own: SOA, NS, its name server's addresses, and its status (R27, R25). */
import { ByteWriter } from '../dns/byte-writer.js';
import { TYPE } from '../dns/constants.js';
import { joinName } from '../dns/names.js';
import { record, soaRdata, ttlSeconds, txtRdata, writeTail } from '../dns/records.js';
import type { ZoneAnswerState, ZoneSpec } from './contract.js';
import type { SetRef } from './entry.js';
import { singleSet } from './sets.js';
import {
  NOT_SYNCED,
  SYNCED,
  TARGETS_PENDING,
  ZONE_NEGATIVE_WORD,
  ZONE_SOA_BYTES,
  ZONE_SOA_LENGTH,
  ZONE_SYNCED,
} from './shared.js';

const ROOT = Uint8Array.of(0);

/** Nobody transfers the zone: these only have to be in proportion (RFC 1912 s.2.2). */
const REFRESH_S = 3600;
const RETRY_S = 600;
const EXPIRE_S = 604_800;

/** What is the same in all records of a zone. */
export interface ZoneFacts {
  /** Its name in wire form. */
  readonly wire: Uint8Array;
  readonly spec: ZoneSpec;
  /** Of its name server; undefined when it would be over 255 octets. */
  readonly nameserver: Uint8Array | undefined;
}

function soa({ wire, spec, nameserver }: ZoneFacts, serial: number): Uint8Array {
  return soaRdata({
    mname: nameserver ?? ROOT,
    rname: joinName(['hostmaster'], wire) ?? ROOT,
    serial: serial >>> 0,
    refresh: REFRESH_S,
    retry: RETRY_S,
    expire: EXPIRE_S,
    minimum: ttlSeconds(spec.negativeTtl),
  });
}

/** The sets at the apex. */
export function apexSets(facts: ZoneFacts, serial: number): SetRef[] {
  const { spec, nameserver } = facts;
  const soaRecord = record(TYPE.SOA, ttlSeconds(spec.negativeTtl), soa(facts, serial));
  const sets: SetRef[] = [{ type: TYPE.SOA, set: singleSet(soaRecord) }];
  if (nameserver !== undefined) {
    sets.push({ type: TYPE.NS, set: singleSet(record(TYPE.NS, ttlSeconds(spec.answerTtl), nameserver)) });
  }
  return sets;
}

/** The set at `_status.ZONE`. */
export function statusSets(spec: ZoneSpec, strings: readonly string[]): SetRef[] {
  return [{ type: TYPE.TXT, set: singleSet(record(TYPE.TXT, ttlSeconds(spec.answerTtl), txtRdata(strings))) }];
}

/** The state block (see shared.ts). `negative` is the block number of the EDE that goes with NXDOMAIN, 0 for none. */
export function zoneStateBlock(
  facts: ZoneFacts,
  state: Pick<ZoneAnswerState, 'synced' | 'targetsPending' | 'serial'>,
  negative: number,
): Uint8Array {
  const tail = new ByteWriter(512);
  writeTail(tail, TYPE.SOA, ttlSeconds(facts.spec.negativeTtl), soa(facts, state.serial));
  const block = new Uint8Array((ZONE_SOA_BYTES + tail.length + 7) & ~7);
  const words = new Int32Array(block.buffer);
  const halves = new Uint16Array(block.buffer);
  words[0] = block.length;
  halves[ZONE_SYNCED] = !state.synced ? NOT_SYNCED : state.targetsPending ? TARGETS_PENDING : SYNCED;
  halves[ZONE_SOA_LENGTH] = tail.length;
  words[ZONE_NEGATIVE_WORD] = negative;
  block.set(tail.view(), ZONE_SOA_BYTES);
  return block;
}
