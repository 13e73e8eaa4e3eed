/** Bytes of a registry file to its contents; large ones in a thread of their own, so that no other zone waits. */
import { bracketFault } from './json-brackets.js';
import { type Packed, PackedListings, pack } from './packed-listings.js';
import { parseElsewhere } from './parse-elsewhere.js';
import {
  type FileContents,
  packServicesFile,
  type ReadOptions,
  type ReadResult,
  readServicesFile,
} from './services-file.js';
import { readTargetsFile } from './targets-file.js';
import { parseJson } from './tree.js';

export interface ParseJob {
  readonly format: 'yaml' | 'json';
  readonly bytes: Uint8Array;
  readonly options: ReadOptions;
}

/** Larger bodies (bytes) are parsed in another thread: they take more than some 100 ms. */
const INLINE_BYTES = { yaml: 128 * 1024, json: 2 * 1024 * 1024 };

/** Never rejects. Of a large body the bytes are handed on: the caller has them no more. */
export function parseServices(job: ParseJob): Promise<ReadResult> {
  return job.bytes.length > INLINE_BYTES[job.format] ? parseFileElsewhere(job) : parseHere(job);
}

/** Parses in this thread. Never rejects. */
export async function parseHere({ format, bytes, options }: ParseJob): Promise<ReadResult> {
  const fault = (reason: string, line?: number): ReadResult => {
    return { ok: false, reason: `${options.file}${line === undefined ? '' : `:${line}`}: ${reason}` };
  };
  if (bytes.length === 0) {
    const none = options.targets === undefined ? '`services: {}`' : '`[]`';
    return fault(`empty (0 bytes); ${none} says that there are none`, 1);
  }
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return fault('not UTF-8 text');
  }
  const brackets = format === 'json' ? bracketFault(bytes) : undefined;
  if (brackets !== undefined) return fault(brackets);
  const tree = format === 'json' ? parseJson(text) : (await import('./yaml-tree.js')).parseYaml(text);
  if (!tree.ok) return fault(tree.reason, tree.line);
  const { targets } = options;
  return targets === undefined ? readServicesFile(tree.root, options) : readTargetsFile(tree.root, options, targets);
}

/** What the other thread sends: the services are packed. */
export type PackedResult =
  | { readonly ok: true; readonly contents: Omit<FileContents, 'services'> & { readonly services: Packed } }
  | Extract<ReadResult, { ok: false }>;

/** What a large file says, to be sent on. Never rejects. */
export async function parsePacked(job: ParseJob): Promise<PackedResult> {
  const whole = job.format === 'yaml' || job.options.targets !== undefined;
  const result = (whole ? undefined : packServicesFile(job.bytes, job.options)) ?? (await parseHere(job));
  if (!result.ok) return result;
  const { parts, facts } = pack(result.contents.services);
  return { ok: true, contents: { ...result.contents, services: { parts, facts } } };
}

function unpacked(result: PackedResult): ReadResult {
  if (!result.ok) return result;
  return { ok: true, contents: { ...result.contents, services: new PackedListings(result.contents.services) } };
}

async function parseFileElsewhere(job: ParseJob): Promise<ReadResult> {
  const hint = job.format === 'yaml' ? '; the same as JSON is read a hundred times faster' : '';
  const failed = (reason: string): PackedResult => {
    return { ok: false, reason: `${job.options.file}: ${reason}${reason.startsWith('not parsed:') ? '' : hint}` };
  };
  return unpacked(await parseElsewhere({ kind: 'file', job }, failed));
}
