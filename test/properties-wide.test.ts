/** Properties of the rules over random histories of several zones with several registries. */
import fc from 'fast-check';
import t from 'tap';
import { REPORTED_FAILURES } from '../src/health/reports.js';
import type { RowState } from '../src/registry/registry.js';
import type { Heard } from './scenario-engine/world.js';
import { CHECKS, HOSTS, PLACES, RELOADS } from './wide-config.js';
import { type WideAction, type WideEndpoint, WideHistory } from './wide-history.js';

/** How many times the number of histories that each commit is tried with: `THOROUGH=50` for a night's search. */
const THOROUGH = Number(process.env.THOROUGH ?? 1);

const SERVICES = [...new Set(Object.values(PLACES).flat())];
const number = fc.integer({ min: 1, max: 8 });
const place = fc.constantFrom(...Object.keys(PLACES));
const serviceAt = place.chain((where) => fc.tuple(fc.constant(where), fc.constantFrom(...PLACES[where]!)));
const service = fc.constantFrom(...SERVICES);
const who = fc.oneof(
  fc.tuple(service, number).map(([name, n]) => `${name}-${n}`),
  service.map((name) => `${name}-*`),
);
const probed = fc.oneof({ weight: 8, arbitrary: who }, { weight: 1, arbitrary: fc.constant('10.9.0.*') });
const endpoint: fc.Arbitrary<WideEndpoint> = fc.record({
  n: number,
  state: fc.constantFrom<RowState>('passing', 'passing', 'passing', 'passing', 'warning', 'critical', 'draining'),
  priority: fc.constantFrom(0, 0, 0, 10),
  tag: fc.constantFrom('blue', 'green'),
  of: fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: service }),
  host: fc.oneof({ weight: 7, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary: fc.constantFrom(...HOSTS) }),
});
const outcome = fc.constantFrom(
  ...(['pass', 'pass', 'refused', 'refused', 'timeout', 'timeout', 'reset', 'unroutable'] as const),
  ...(['bad-status', 'wrong-identity', 'draining', 'silent'] as const),
);
const outcomes = fc.oneof(
  { weight: 5, arbitrary: outcome.map((one) => [one]) },
  { weight: 1, arbitrary: fc.array(outcome, { minLength: 2, maxLength: 8 }) },
);

const action: fc.Arbitrary<WideAction> = fc.oneof(
  {
    weight: 10,
    arbitrary: fc
      .constantFrom(50, 700, 6_000, 20_000, 61_000, 310_000, 700_000, 1_400_000)
      .map((ms): WideAction => ({ do: 'wait', ms })),
  },
  {
    weight: 8,
    arbitrary: fc
      .tuple(serviceAt, fc.array(endpoint, { maxLength: 6 }), fc.integer({ min: 0, max: CHECKS.length - 1 }))
      .map(
        ([[where, name], endpoints, check]): WideAction => ({
          do: 'list',
          place: where,
          service: name,
          endpoints,
          check,
        }),
      ),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.constantFrom(...HOSTS),
        fc.oneof(
          fc.constant('no server could answer'),
          fc.array(fc.tuple(fc.constantFrom('', '', ...SERVICES), number), { minLength: 1, maxLength: 3 }),
        ),
      )
      .map(([host, to]): WideAction => ({ do: 'resolve', host, to })),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(place, fc.constantFrom('*', ...SERVICES))
      .map(([where, name]): WideAction => ({ do: 'release', place: where, service: name })),
  },
  { weight: 2, arbitrary: serviceAt.map(([where, name]): WideAction => ({ do: 'drop', place: where, service: name })) },
  {
    weight: 1,
    arbitrary: fc.tuple(place, fc.boolean()).map(([where, epoch]): WideAction => ({ do: 'wipe', place: where, epoch })),
  },
  {
    weight: 5,
    arbitrary: fc
      .tuple(place, fc.constantFrom<Heard>('heard', 'heard', 'heard', 'unreachable', 'unbelievable', 'silent'))
      .map(([where, heard]): WideAction => ({ do: 'registry', place: where, heard })),
  },
  {
    weight: 1,
    arbitrary: fc
      .tuple(place, fc.boolean())
      .map(([where, believable]): WideAction => ({ do: 'removals', place: where, believable })),
  },
  {
    weight: 12,
    arbitrary: fc
      .tuple(probed, outcomes)
      .map(([name, said]): WideAction => ({ do: 'probe', who: name, outcomes: said })),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom('pass', 'refused', 'timeout')
      .map((said): WideAction => ({ do: 'probe-all', outcome: said })),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(who, fc.constantFrom(...REPORTED_FAILURES), fc.integer({ min: 1, max: 3 }))
      .map(([name, failure, times]): WideAction => ({ do: 'report', who: name, failure, times })),
  },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.oneof(
          service,
          fc.tuple(service, number).map(([name, n]) => `${name}-${n}`),
        ),
        fc.boolean(),
      )
      .map(([name, undo]): WideAction => ({ do: 'drain', who: name, undo })),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom('*', ...SERVICES).map((name): WideAction => ({ do: 'accept', service: name })),
  },
  { weight: 1, arbitrary: fc.constantFrom(0.2, 0.2, 0.97).map((fill): WideAction => ({ do: 'conntrack', fill })) },
  { weight: 2, arbitrary: fc.boolean().map((alive): WideAction => ({ do: 'prober', alive })) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.constantFrom(0, 3_000, 120_000),
        fc.boolean(),
        fc.constantFrom(true, true, true, false),
        fc.option(fc.integer({ min: 0, max: RELOADS.length - 1 }), { nil: undefined }),
        fc.boolean(),
      )
      .map(
        ([downFor, inParts, trusted, to, late]): WideAction => ({ do: 'restart', downFor, inParts, trusted, late, to }),
      ),
  },
  { weight: 1, arbitrary: fc.constantFrom(6_000, 3_600_000).map((length): WideAction => ({ do: 'gap', length })) },
  { weight: 1, arbitrary: fc.constantFrom(-86_400_000, 86_400_000).map((by): WideAction => ({ do: 'wall', by })) },
  {
    weight: 3,
    arbitrary: fc.integer({ min: 0, max: RELOADS.length - 1 }).map((to): WideAction => ({ do: 'reload', to })),
  },
);

t.test(
  'whatever befalls zones that share addresses, no known name is empty and no corpse stands for the living',
  async (t) => {
    const result = fc.check(
      fc.property(fc.array(action, { minLength: 1, maxLength: 30 }), (actions) => {
        const history = new WideHistory();
        for (const one of actions) history.run(one);
      }),
      { numRuns: 25 * THOROUGH, ...(process.env.SEED === undefined ? {} : { seed: Number(process.env.SEED) }) },
    );
    if (!result.failed) t.pass(`${result.numRuns} histories`);
    else {
      t.fail(String(result.errorInstance), {
        seed: result.seed,
        path: result.counterexamplePath,
        history: result.counterexample?.[0].map((one) => JSON.stringify(one)),
      });
    }
  },
);
