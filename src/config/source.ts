/** A configuration file as text: read with care, parsed as YAML, with the line of every key at hand. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { isAlias, isMap, isNode, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { ConfigError, type KeyPath } from './errors.js';

const MAX_BYTES = 4 * 1024 * 1024;
/** Aliases that expand to more than this are an attack or a mistake. */
const MAX_ALIASES = 1000;

/** Reads a file whole. Throws a ConfigError that says what is wrong with it. */
export function readSource(file: string): string {
  try {
    return decode(file, readBytes(file));
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(file, reasonFor(error as NodeJS.ErrnoException));
  }
}

function readBytes(file: string): Buffer {
  const fd = openSync(file, 'r');
  try {
    if (fstatSync(fd).isDirectory()) throw new ConfigError(file, 'is a directory, expected a file');
    const chunks: Buffer[] = [];
    let total = 0;
    for (;;) {
      const chunk = Buffer.allocUnsafe(64 * 1024);
      const count = readSync(fd, chunk);
      if (count === 0) return Buffer.concat(chunks);
      total += count;
      if (total > MAX_BYTES) throw new ConfigError(file, 'expected a file of at most 4MiB');
      chunks.push(chunk.subarray(0, count));
    }
  } finally {
    closeSync(fd);
  }
}

function decode(file: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new ConfigError(file, 'is not text in UTF-8');
  }
}

function reasonFor(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return 'no such file (name another with --config FILE)';
    case 'EACCES':
    case 'EPERM':
      return 'permission denied';
    case 'EISDIR':
      return 'is a directory, expected a file';
    default:
      return `cannot be read: ${error.message}`;
  }
}

/** A parsed file: its value as plain data, and where in it things are. */
export interface Source {
  readonly value: unknown;
  /** The line of a key, or of the nearest thing above it that the file has. */
  lineOf(path: KeyPath): number;
}

/** Parses text as YAML (or JSON). Throws a ConfigError with the line of the first fault. */
export function parseSource(file: string, text: string): Source {
  const lines = new LineCounter();
  const at = (offset: number) => lines.linePos(offset).line || 1;
  try {
    const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, merge: true });
    const fault = document.errors[0] ?? document.warnings[0];
    if (fault) {
      throw new ConfigError(file, faultText(fault.code, fault.message, text, fault.pos[0]), { line: at(fault.pos[0]) });
    }
    if (document.contents === null || (isScalar(document.contents) && document.contents.value === null)) {
      throw new ConfigError(file, 'is empty, expected at least version and zones');
    }
    const value: unknown = document.toJS({ maxAliasCount: MAX_ALIASES });
    const follow = (node: unknown): unknown => (isAlias(node) ? node.resolve(document) : node);
    return { value, lineOf: (path) => at(offsetOf(document.contents, path, follow)) };
  } catch (error) {
    if (error instanceof ConfigError) throw error;
    throw new ConfigError(file, `cannot be read as YAML: ${(error as Error).message}`);
  }
}

function faultText(code: string, message: string, text: string, offset: number): string {
  if (code === 'DUPLICATE_KEY') {
    const key = /^[^\s:#]+/.exec(text.slice(offset, offset + 80))?.[0];
    return `the key ${key ?? ''} is there twice in one map`;
  }
  if (code === 'TAB_AS_INDENT') return 'a tab in the indentation, expected spaces';
  if (code === 'MULTIPLE_DOCS') return 'expected one YAML document, not several';
  if (message.includes('call stack')) return 'nested too deeply';
  return message.replace(/\s+/g, ' ').trim();
}

function offsetOf(root: Node | null, path: KeyPath, follow: (node: unknown) => unknown): number {
  let node: unknown = root;
  let offset = root?.range?.[0] ?? 0;
  for (const step of path) {
    node = follow(node);
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(step));
      if (!pair) return offset;
      offset = (pair.key as Node).range?.[0] ?? offset;
      node = pair.value;
    } else if (isSeq(node)) {
      const item = node.items[Number(step)];
      if (!isNode(item)) return offset;
      offset = item.range?.[0] ?? offset;
      node = item;
    } else return offset;
  }
  return offset;
}
