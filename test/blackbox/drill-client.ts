/**
 * A program of the drill: asks `orders` at a steady rate through `holdfast/client` until it is told to stop, and
 * counts. `node drill-client.js RATE ZONE NAMESERVER REPORTS`
 */
import type * as Library from '../../src/client/index.js';

/** What it has to say in the end. */
export interface Count {
  readonly asked: number;
  readonly answered: number;
  /** What the others failed with. */
  readonly lost: readonly string[];
  /** Answers by backend. */
  readonly by: Readonly<Record<string, number>>;
  /** Milliseconds. */
  readonly worst: number;
  readonly status: Library.ClientStatus;
}

const [rate = '200', zone = '', nameserver = '', reports = ''] = process.argv.slice(2);
const TICK_MS = 5;

// As a program gets it, from the package.
const name = 'holdfast/client';
const { ServiceClient } = (await import(name)) as typeof Library;
const client = new ServiceClient({ zone, nameserver, reports });
const by: Record<string, number> = {};
const lost: string[] = [];
let [asked, answered, worst] = [0, 0, 0];
const underWay = new Set<Promise<void>>();

async function ask(): Promise<void> {
  const started = performance.now();
  try {
    const response = await client.fetch('http://orders/');
    const text = (await response.text()).trim();
    if (response.status !== 200) throw new Error(`status ${response.status}`);
    by[text] = (by[text] ?? 0) + 1;
    answered++;
  } catch (error) {
    const { cause, message } = error as Error;
    lost.push(cause instanceof Error ? cause.message : message);
  }
  worst = Math.max(worst, performance.now() - started);
}

const start = performance.now();
const timer = setInterval(() => {
  // What a late timer has missed is caught up with.
  const due = Math.floor(((performance.now() - start) / 1_000) * Number(rate));
  while (asked < due) {
    asked++;
    const one: Promise<void> = ask().finally(() => underWay.delete(one));
    underWay.add(one);
  }
}, TICK_MS);

process.send?.('asking');
process.on('message', async () => {
  clearInterval(timer);
  await Promise.all(underWay);
  const count: Count = { asked, answered, lost, by, worst: Math.round(worst), status: client.status() };
  process.send?.(count, () => process.exit(0));
});
