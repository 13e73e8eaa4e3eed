/** The demo by itself: a backend dies, the registry goes, the backend returns, the registry returns. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Stage } from './stage.js';
import { look, type Sight } from './watch.js';

/** Long enough for the slowest machine; a step that does not hold is a failure, not a delay. */
const STEP_MS = 20_000;
const STEADY_LOOKS = 10;

interface Step {
  readonly does: string;
  readonly act: () => void | Promise<void>;
  readonly expects: string;
  readonly holds: (sight: Sight) => boolean;
  /** It has to hold for this many looks, and not only once. */
  readonly looks: number;
}

/** Resolves with whether every step held. */
export async function runTour(stage: Stage, say: (text: string, held?: boolean) => void): Promise<boolean> {
  const answered = (sight: Sight, orders: string) =>
    sight.answers.get('orders')?.backends.join() === orders &&
    sight.answers.get('billing')?.backends.join() === 'billing-1';
  const second = stage.backends[1]!;
  const steps: Step[] = [
    {
      does: 'everything is well',
      act: () => {},
      expects: 'both orders and billing are answered',
      holds: (sight) => answered(sight, 'orders-1,orders-2') && sight.zone?.heard === true,
      looks: 1,
    },
    {
      does: 'orders-2 is killed',
      act: () => stage.killBackend(second.name),
      expects: 'it leaves the answer',
      holds: (sight) => answered(sight, 'orders-1'),
      looks: STEADY_LOOKS,
    },
    {
      does: 'the registry is taken away',
      act: () => stage.removeRegistry(),
      expects: 'it is not heard, and every answer stays',
      holds: (sight) => sight.zone?.heard === false && answered(sight, 'orders-1'),
      looks: STEADY_LOOKS,
    },
    {
      does: 'orders-2 is started again, without a registry',
      act: () => stage.startBackend(second),
      expects: 'it is back in the answer',
      holds: (sight) => sight.zone?.heard === false && answered(sight, 'orders-1,orders-2'),
      looks: 1,
    },
    {
      does: 'the registry is brought back',
      act: () => stage.writeRegistry(),
      expects: 'it is heard, and answers are fresh',
      holds: (sight) =>
        sight.zone?.heard === true && sight.zone.state === 'fresh' && answered(sight, 'orders-1,orders-2'),
      looks: 1,
    },
  ];
  for (const step of steps) {
    say(step.does);
    await step.act();
    const held = await awaitStep(stage, step);
    say(step.expects, held);
    if (!held) return false;
  }
  return true;
}

async function awaitStep(stage: Stage, step: Step): Promise<boolean> {
  const until = performance.now() + STEP_MS;
  for (let steady = 0; ; ) {
    const sight = await look(stage);
    steady = step.holds(sight) ? steady + 1 : 0;
    if (steady >= step.looks) return true;
    if (performance.now() > until) return false;
    await sleep(100);
  }
}
