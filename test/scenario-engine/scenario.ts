/** The form of a scenario file. test/scenarios/README.md explains it to people. */
import { readFileSync } from 'node:fs';
import { isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml';
import { z } from 'zod';
import { isDuration } from './duration.js';

const durationText = z.string().refine(isDuration, 'a duration such as 10s, 1m30s or 800ms');
/** `10s` is counted from the start; `+10s` from the step before. */
const momentText = z.string().refine((text) => isDuration(text.replace(/^\+/, '')), 'a time such as 10s or +10s');

const check = z.strictObject({
  type: z.enum(['tcp', 'http', 'https', 'none']).optional(),
  port: z.number().optional(),
  path: z.string().optional(),
});
const item = z.union([z.number(), z.string()]);
const items = z.union([item, z.array(item)]);
const serviceText = z.union([items, z.strictObject({ endpoints: items, check: check.optional() })]);
const services = z.record(z.string(), serviceText);

const outcome = z
  .string()
  .regex(/^(pass|draining|refused|reset|unroutable|wrong-identity|timeout|bad-status|silent)( x\d+)?$/);
/** A list is gone through, one outcome a probe, again and again. */
const behaviour = z.union([outcome, z.array(outcome)]);
const which = z.union([z.number(), z.string(), z.array(item)]);

const expectation = {
  rcode: z.enum(['NOERROR', 'FORMERR', 'SERVFAIL', 'NXDOMAIN', 'NOTIMP', 'REFUSED', 'BADVERS']).optional(),
  answers: which.optional(),
  count: z.number().int().optional(),
  atLeast: z.number().int().optional(),
  includes: which.optional(),
  excludes: which.optional(),
  records: z.array(z.string()).optional(),
  authority: z.union([z.literal('none'), z.array(z.string())]).optional(),
  additional: z.enum(['none', 'all']).optional(),
  ttl: durationText.optional(),
  flags: z.string().optional(),
  ede: z.union([z.literal('none'), z.number(), z.array(z.union([z.number(), z.string()])).length(2)]).optional(),
};

/** One endpoint after the other changes in the registry. */
const drip = z.strictObject({
  service: z.string(),
  endpoints: z.string(),
  to: z.enum(['gone', 'passing', 'critical', 'draining']),
  every: durationText,
});
/** One endpoint after the other is replaced in the registry. */
const roll = z.strictObject({
  service: z.string(),
  old: z.string(),
  new: z.string(),
  every: durationText,
  order: z.enum(['new-first', 'old-first']),
  /** Between the first and the second half of each replacement; without it both come in one update. */
  gap: durationText.default('0s'),
});

const step = z.strictObject({
  at: momentText.optional(),
  note: z.string().optional(),
  zone: z.string().optional(),
  /** Which of the zone's registries the step is about; without it the first. */
  of: z.string().optional(),

  list: services.optional(),
  change: services.optional(),
  gone: z.array(z.string()).optional(),
  nodes: z.record(z.string(), z.string()).optional(),
  /** What host names are found to be from now on: addresses, or why there are none. */
  resolve: z.record(z.string(), z.union([z.string(), z.array(z.string())])).optional(),
  drip: drip.optional(),
  roll: roll.optional(),
  epoch: z.string().optional(),
  additionsOnly: z.boolean().optional(),
  rejected: z.array(z.string()).optional(),
  release: z.string().optional(),
  registry: z.enum(['heard', 'confirmed', 'unreachable', 'unbelievable', 'silent']).optional(),

  probe: z.record(z.string(), behaviour).optional(),
  prober: z.enum(['dead', 'alive']).optional(),
  conntrack: z.number().optional(),
  /** Addresses of this host. */
  own: z.array(z.string()).optional(),
  /** How clients say that connections to endpoints failed, by id: `timeout x2`. */
  report: z.record(z.string(), z.string().regex(/^(refused|reset|timeout|unreachable|other)( x\d+)?$/)).optional(),

  restart: z
    .strictObject({
      downFor: durationText.default('1s'),
      snapshot: z.enum(['trusted', 'untrusted', 'none']).default('trusted'),
      /** What is done to the clock meanwhile. */
      wallStep: z.string().default('0s'),
    })
    .optional(),
  gap: durationText.optional(),
  wallStep: z.string().optional(),
  reload: z.record(z.string(), z.unknown()).optional(),
  accept: z.string().optional(),
  /** `holdfast drain`, and with `--undo`. */
  drain: z.string().optional(),
  undrain: z.string().optional(),
  released: z.number().optional(),

  /** So many names that nobody has heard of are asked at once. */
  flood: z.number().int().optional(),
  query: z.string().optional(),
  /** How long the answer to `query` took. */
  waited: durationText.optional(),
  /** R33: look-ups that were begun since the start. */
  lookUps: z.number().int().optional(),
  watch: z.string().optional(),
  until: momentText.optional(),
  maxChanges: z.number().int().optional(),
  ...expectation,
  status: z.record(z.string(), z.unknown()).optional(),
  service: z.record(z.string(), z.unknown()).optional(),
  suspects: z.enum(['none', 'IPv4', 'IPv6', 'IPv4 IPv6']).optional(),
  explain: z.string().optional(),
  outcome: z.string().optional(),
  rows: z.record(z.string(), z.string()).optional(),
  because: z.string().optional(),
  log: z.union([z.string(), z.array(z.string())]).optional(),
  noLog: z.union([z.string(), z.array(z.string())]).optional(),
});

const scenario = z.strictObject({
  name: z.string(),
  rules: z.array(z.string().regex(/^(R\d+|[ABD]\d+|P\d+)$/)).min(1),
  why: z.string(),
  config: z.record(z.string(), z.unknown()).default({}),
  /** Other zones beside the first, by name; their registry says nothing until a step with `zone:` does. */
  zones: z.record(z.string(), z.record(z.string(), z.unknown())).default({}),
  /** How the registry confirms what it listed, every half soft TTL: by listing it again, by a word, or not at all. */
  confirms: z.enum(['list', 'word', 'never']).default('list'),
  steps: z.array(step).min(1),
});

export type Step = z.infer<typeof step> & { readonly line: number };
export type Scenario = Omit<z.infer<typeof scenario>, 'steps'> & {
  readonly file: string;
  readonly line: number;
  readonly steps: readonly Step[];
};
export type Expectation = Pick<Step, keyof typeof expectation>;

/** A fault in a scenario file itself. */
export class ScenarioError extends Error {}

/** Reads one file: a scenario, or a list of them. Throws ScenarioError with file, line and key. */
export function readScenarios(file: string): Scenario[] {
  const lines = new LineCounter();
  const document = parseDocument(readFileSync(file, 'utf8'), { lineCounter: lines, merge: true });
  const first = document.errors[0];
  if (first) throw new ScenarioError(`${file}: ${first.message}`);
  const root = document.contents as Node | null;
  const nodes = isSeq(root) ? (root.items as Node[]) : root ? [root] : [];
  const lineOf = (node: Node | null | undefined): number => (node?.range ? lines.linePos(node.range[0]).line : 0);
  return nodes.map((node) => {
    const parsed = scenario.safeParse(node.toJS(document));
    if (!parsed.success) {
      const issue = parsed.error.issues[0];
      const at = nodeAt(node, issue?.path ?? []);
      throw new ScenarioError(`${file}:${lineOf(at)}: ${issue?.path.join('.')}: ${issue?.message}`);
    }
    const stepNodes = isMap(node) ? node.get('steps', true) : null;
    const steps = parsed.data.steps.map((one, index) => ({
      ...one,
      line: lineOf(isSeq(stepNodes) ? (stepNodes.items[index] as Node) : node),
    }));
    return { ...parsed.data, steps, file, line: lineOf(node) };
  });
}

/** The deepest node on the way to `path`, for its line. */
function nodeAt(node: Node, path: readonly PropertyKey[]): Node {
  let at: Node = node;
  for (const key of path) {
    const next = isMap(at) || isSeq(at) ? at.get(key, true) : null;
    if (!next || (!isMap(next) && !isSeq(next) && !isScalar(next))) break;
    at = next as Node;
  }
  return at;
}
