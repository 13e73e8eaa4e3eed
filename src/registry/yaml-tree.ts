/**
 * YAML text to a tree. Scalars stay text, as the failsafe schema has them, so that a service called `007` or `1e3`
 * keeps its name; an empty value, `~` and `null` are null. An alias shares the node of its anchor, so a tree is
 * never larger than its text.
 */
import { isAlias, isMap, isScalar, isSeq, type Node, parseDocument, Scalar, type YAMLMap } from 'yaml';
import { lineCounter, Pairs, type TreeResult } from './tree.js';

export function parseYaml(text: string): TreeResult {
  const lineOf = lineCounter(text);
  try {
    const document = parseDocument(text, {
      schema: 'failsafe',
      uniqueKeys: false,
      prettyErrors: false,
      keepSourceTokens: false,
      // `silent` would hide a second document.
      logLevel: 'error',
    });
    const error = document.errors[0];
    if (error !== undefined) return { ok: false, reason: reasonOf(error), line: lineOf(error.pos[0]) };
    return { ok: true, root: new Converter(lineOf).value(document.contents) };
  } catch (error) {
    const reason = reasonOf(error);
    return error instanceof BadNode ? { ok: false, reason, line: lineOf(error.offset) } : { ok: false, reason };
  }
}

function reasonOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error);
  return `not YAML: ${message.includes('call stack') ? 'nested too deeply' : message.replace(/\s+/g, ' ')}`;
}

class BadNode extends Error {
  readonly offset: number;

  constructor(message: string, node: Node) {
    super(message);
    this.offset = offsetOf(node);
  }
}

function offsetOf(node: Node): number {
  return node.range?.[0] ?? 0;
}

class Converter {
  readonly #anchors = new Map<string, unknown>();
  readonly #lineOf: (offset: number) => number;

  constructor(lineOf: (offset: number) => number) {
    this.#lineOf = lineOf;
  }

  value(node: unknown): unknown {
    if (isAlias(node)) {
      if (!this.#anchors.has(node.source)) throw new BadNode(`alias *${node.source} has no anchor before it`, node);
      return this.#anchors.get(node.source);
    }
    const value = this.#plain(node);
    const anchor = (node as { anchor?: string } | null)?.anchor;
    if (anchor !== undefined) this.#anchors.set(anchor, value);
    return value;
  }

  #plain(node: unknown): unknown {
    if (isScalar(node)) return scalarValue(node);
    if (isMap(node)) return this.#map(node);
    if (isSeq(node)) return node.items.map((item) => this.value(item));
    return null;
  }

  #map(node: YAMLMap): Pairs {
    const pairs = new Pairs(this.#lineOf(offsetOf(node)));
    for (const { key, value } of node.items) {
      const name = this.value(key);
      if (typeof name !== 'string') throw new BadNode('a key is not plain text', (key as Node | null) ?? node);
      pairs.items.push([name, this.value(value), this.#lineOf(offsetOf(key as Node))]);
    }
    return pairs;
  }
}

function scalarValue(node: Scalar): unknown {
  const text = String(node.value ?? '');
  return node.type === Scalar.PLAIN && /^(?:|~|null|Null|NULL)$/.test(text) ? null : text;
}
