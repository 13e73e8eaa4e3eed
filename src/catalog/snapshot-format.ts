/**
 * A snapshot file (R29). First line: the header, with the length and the SHA-256 of all that follows, and of the
 * header itself. Second line: the zone's meta, JSON. Then one line a service: `["name",DATA]`.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { WallMs } from '../system/clock.js';

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

const CHUNK_CHARS = 1 << 20;

/** The chunks of a snapshot file. `services` are JSON texts by name. */
export function encodeSnapshot(
  about: Pick<SnapshotHeader, 'machine' | 'zone' | 'registry' | 'wall'>,
  meta: string,
  services: ReadonlyMap<string, string>,
): Uint8Array[] {
  const chunks: Buffer[] = [];
  let text = `${meta}\n`;
  for (const [name, json] of services) {
    text += `[${JSON.stringify(name)},${json}]\n`;
    if (text.length < CHUNK_CHARS) continue;
    chunks.push(Buffer.from(text));
    text = '';
  }
  if (text !== '') chunks.push(Buffer.from(text));
  const bytes = chunks.reduce((sum, chunk) => sum + chunk.length, 0);
  const { machine, zone, registry, wall } = about;
  const header = {
    format: 'holdfast-snapshot',
    version: 1,
    machine,
    zone,
    registry,
    wall,
    services: services.size,
    bytes,
  };
  const sha256 = checksum(header, chunks);
  return [Buffer.from(`${JSON.stringify({ ...header, sha256 })}\n`), ...chunks];
}

export interface DecodedSnapshot {
  readonly header: SnapshotHeader;
  readonly meta: unknown;
  readonly services: [name: string, data: unknown][];
}

/** What a whole file holds, or what is damaged about it in a few words. */
export function decodeSnapshot(file: Buffer): DecodedSnapshot | string {
  const end = file.indexOf(0x0a);
  if (end === -1) return file.length === 0 ? 'empty' : 'its header is damaged';
  const header = parse(file.toString('utf8', 0, end)) as SnapshotHeader | undefined;
  if (header === undefined || header?.format !== 'holdfast-snapshot') return 'its header is damaged';
  if (header.version !== 1) return `it has format version ${String(header.version)}, this program reads 1`;
  const body = file.subarray(end + 1);
  if (body.length !== header.bytes) return `it has ${body.length} bytes where ${String(header.bytes)} were written`;
  const { sha256, ...rest } = header;
  if (checksum(rest, [body]) !== sha256) return 'its checksum is wrong';
  const lines: unknown[] = [];
  for (let from = 0; from < body.length; ) {
    const to = body.indexOf(0x0a, from);
    const line = to === -1 ? undefined : parse(body.toString('utf8', from, to));
    if (line === undefined) return 'its content is damaged';
    lines.push(line);
    from = to + 1;
  }
  const [meta, ...services] = lines;
  return { header, meta, services: services as [string, unknown][] };
}

function checksum(header: object, body: readonly Uint8Array[]): string {
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
