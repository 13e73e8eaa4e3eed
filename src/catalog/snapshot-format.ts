/**
 * A snapshot file (R29). First line: the header, with the length and the SHA-256 of all that follows, and of the
 * header itself. Second line: the zone's meta, JSON. Then one line a service: `["name",DATA]`.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { WallMs } from '../system/clock.js';
import { type Blocks, linesOf } from './block-file.js';
import type { SnapshotLines } from './snapshot-body.js';

export interface SnapshotHeader {
  readonly format: 'holdfast-snapshot';
  readonly version: 1;
  /** See `machine.ts`; null when the machine has no id. */
  readonly machine: string | null;
  readonly zone: string;
  /** See `zoneIdentity`. */
  readonly registry: string;
  /** When the zone was last in force as it is here. */
  readonly wall: WallMs;
  readonly services: number;
  /** Of the body, which is all after the header's line. */
  readonly bytes: number;
  readonly sha256: string;
}

/** The chunks of a snapshot file. All lines are read once before the first. */
export function encodeSnapshot(
  about: Pick<SnapshotHeader, 'machine' | 'zone' | 'registry' | 'wall'>,
  meta: string,
  lines: SnapshotLines,
): Iterable<Uint8Array> {
  const { machine, zone, registry, wall } = about;
  const first = Buffer.from(`${meta}\n`);
  const header = {
    format: 'holdfast-snapshot',
    version: 1,
    machine,
    zone,
    registry,
    wall,
    services: lines.count,
    bytes: first.length + lines.bytes,
  };
  const body = function* (): Generator<Uint8Array> {
    yield first;
    yield* lines.chunks();
  };
  const sha256 = checksum(header, body());
  return (function* () {
    yield Buffer.from(`${JSON.stringify({ ...header, sha256 })}\n`);
    yield* body();
  })();
}

/** Lines of services. They are read and parsed when they are walked over: all at once would take much memory. */
export type SavedServices = Iterable<[name: string, data: unknown]> & { readonly length: number };

export interface DecodedSnapshot {
  readonly header: SnapshotHeader;
  readonly meta: unknown;
  readonly services: SavedServices;
}

/** What a whole file holds, or what is damaged about it in a few words. Throws when it cannot be read. */
export function decodeSnapshot(file: Blocks): DecodedSnapshot | string {
  if (file.length === 0) return 'empty';
  const first = firstLine(file.from(0));
  const header = first && (parse(first.toString()) as SnapshotHeader | undefined);
  if (first === undefined || header?.format !== 'holdfast-snapshot') return 'its header is damaged';
  if (header.version !== 1) return `it has format version ${String(header.version)}, this program reads 1`;
  const start = first.length + 1;
  const bytes = file.length - start;
  if (bytes !== header.bytes) return `it has ${bytes} bytes where ${String(header.bytes)} were written`;
  const { sha256, ...rest } = header;
  if (checksum(rest, file.from(start)) !== sha256) return 'its checksum is wrong';
  const { value: line, done } = linesOf(file.from(start)).next();
  const meta = done ? undefined : parse(line as string);
  if (meta === undefined) return 'its content is damaged';
  return { header, meta, services: new Lines(header.services, file, start) };
}

/** A header is in the first block, or it is none. */
function firstLine(blocks: Iterable<Buffer>): Buffer | undefined {
  for (const block of blocks) {
    const end = block.indexOf(0x0a);
    return end === -1 ? undefined : block.subarray(0, end);
  }
  return undefined;
}

class Lines implements SavedServices {
  readonly length: number;
  readonly #file: Blocks;
  readonly #start: number;

  constructor(length: number, file: Blocks, start: number) {
    this.length = length;
    this.#file = file;
    this.#start = start;
  }

  *[Symbol.iterator](): Iterator<[string, unknown]> {
    let isMeta = true;
    for (const line of linesOf(this.#file.from(this.#start))) {
      if (!isMeta) yield parse(line) as [string, unknown];
      isMeta = false;
    }
  }
}

function checksum(header: object, body: Iterable<Uint8Array>): string {
  const hash = createHash('sha256').update(`${JSON.stringify(header)}\n`);
  for (const chunk of body) hash.update(chunk);
  return hash.digest('hex');
}

function parse(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch {
    return undefined;
  }
}

/** The two generations of a zone's snapshot. */
export function snapshotPaths(folder: string, zone: string): { current: string; previous: string } {
  const current = join(folder, `${safeName(zone)}.snapshot`);
  return { current, previous: `${current}.old` };
}

/** A zone's name as a file name: other signs than those of host names are escaped, long names are cut and hashed. */
function safeName(zone: string): string {
  const escaped = zone.replace(/^\.|[^a-z0-9._-]/g, (sign) => `%${Buffer.from(sign).toString('hex')}`);
  if (escaped.length <= 180) return escaped;
  return `${escaped.slice(0, 160)}-${createHash('sha256').update(zone).digest('hex').slice(0, 16)}`;
}
