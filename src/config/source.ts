/** The text of a configuration parsed as YAML, with the line of every key at hand. */
import { isAlias, isMap, isNode, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { ConfigError, type KeyPath } from './errors.js';

/** Aliases that expand to more than this are an attack or a mistake. */
const MAX_ALIASES = 1000;

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
