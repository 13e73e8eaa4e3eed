/** Answers of Consul as they become rows, and what is to be read next, without a registry. */
import t from 'tap';
import { AllChecks } from '../src/registry/consul-all-checks.js';
import { contentsOf, readServiceAnswer } from '../src/registry/consul-answer.js';
import { CheckTable } from '../src/registry/consul-check-table.js';
import { groupKey } from '../src/registry/consul-checks.js';
import { ConsulMirror } from '../src/registry/consul-mirror.js';
import { ReadPlan } from '../src/registry/consul-reads.js';
import { Notes } from '../src/registry/notes.js';
import { RevisionMemory } from '../src/registry/revision-memory.js';
import { AddressPolicy } from '../src/registry/rows.js';

const POLICY = new AddressPolicy([], false);

t.test('R6: an answer that is older than an instance that it does not have is not taken in', async (t) => {
  const mirror = new ConsulMirror(POLICY, 'dc1');
  const answer = (body: unknown, index: number) => ({ body, index, filtered: false });
  const Node = { Node: 'n1', Address: '10.9.0.1', ModifyIndex: 1 };
  const Service = { ID: 'a', Service: 'web', Port: 80, ModifyIndex: 20 };
  mirror.takeServices(answer({ web: [] }, 20));
  mirror.takeNodes(answer([Node], 20));
  mirror.takeService('web', answer([{ Node, Service }], 20));
  t.match(mirror.takeService('web', answer([], 19)), /older than what is known/);
  t.match(mirror.takeNode(answer({ Node, Services: [] }, 19), false), /older than what is known/);
  t.equal(mirror.contents('web', new Notes())?.rows.length, 1);
  t.match(mirror.takeNode(answer({ Node, Services: [] }, 21), false), { lost: true });
  t.equal(mirror.contents('web', new Notes())?.rows.length, 0);
});

t.test('an answer that says what is known already is no change', async (t) => {
  const mirror = new ConsulMirror(POLICY, 'dc1');
  const answer = (body: unknown, index: number, filtered = false) => ({ body, index, filtered });
  const Node = { Node: 'n1', Address: '10.9.0.1', ModifyIndex: 1 };
  const entry = (ModifyIndex: number, Status = 'passing', Port = 80) => {
    const Checks = [{ Node: 'n1', CheckID: 'c', Status, ServiceID: 'a', ServiceName: 'web', ModifyIndex }];
    return { Node, Service: { ID: 'a', Service: 'web', Port, ModifyIndex: Port - 60 }, Checks };
  };
  const changed = (body: unknown, index: number, filtered = false): string[] => {
    const found = mirror.takeService('web', answer(body, index, filtered));
    return typeof found === 'string' ? [found] : [...found.changed];
  };
  mirror.takeServices(answer({ web: [] }, 20));
  mirror.takeNodes(answer([Node], 20));
  t.same(changed([entry(20)], 20), ['web'], 'the first');
  t.same(changed([entry(20)], 21), [], 'the same again');
  t.same(changed([entry(22, 'critical')], 22), ['web'], 'its check is another');
  t.same(changed([entry(22, 'critical', 81)], 23), ['web'], 'its port is');
  t.same(changed([entry(22, 'critical', 81)], 24, true), ['web'], 'it may not be the whole truth');
  t.same(changed([entry(22, 'critical', 81)], 25), ['web'], 'it is');
  t.same(changed([], 26), ['web'], 'gone');
  t.same(changed([], 27), []);
});

t.test(
  'a list of services that is the same to the last byte tells of what was not read yet, and of nothing else',
  async (t) => {
    const mirror = new ConsulMirror(POLICY, 'dc1');
    const take = (body: object, filtered = false): [string[], string[]] => {
      const found = mirror.takeServices({ body, bytes: Buffer.from(JSON.stringify(body)), index: 9, filtered })!;
      return [[...found.changed], [...found.unread]];
    };
    const Node = { Node: 'n1', Address: '10.9.0.1', ModifyIndex: 1 };
    const read = (Service: string): unknown =>
      mirror.takeService(Service, {
        body: [{ Node, Service: { ID: Service, Service, Port: 80, ModifyIndex: 2 }, Checks: [] }],
        index: 9,
        filtered: false,
      });
    t.same(take({ a: [], b: [] }), [[], ['a', 'b']]);
    read('a');
    t.same(take({ a: [], b: [] }), [[], ['b']]);
    read('b');
    t.same(take({ a: [], b: [] }), [[], []]);
    t.same(take({ a: [], b: ['new'] }), [[], ['b']]);
    t.same(take({ a: [] }), [['b'], []]);
    t.same(take({ a: [], b: ['new'] }), [[], ['b']], 'it came again');
    read('b');
    t.same(take({ b: ['new'] }, true), [[], ['a']], 'hidden, or gone');
    t.same(take({ b: ['new'] }), [['a'], []], 'gone');
  },
);

t.test('R22: an answer about one service may have instances of another one, whose name differs in case', async (t) => {
  const mirror = new ConsulMirror(POLICY, 'dc1');
  const answer = (body: unknown) => ({ body, index: 9, filtered: false });
  const entry = (Service: string, Address: string) => ({
    Node: { Node: 'n1', Address: '10.9.0.1', ModifyIndex: 1 },
    Service: { ID: Address, Service, Address, Port: 80, ModifyIndex: 2 },
    Checks: [],
  });
  mirror.takeServices(answer({ web: [], Web: [] }));
  const both = answer([entry('web', '10.0.0.1'), entry('Web', '10.0.0.2')]);
  for (const name of ['web', 'Web']) mirror.takeService(name, both);
  t.match(mirror.contents('web', new Notes()), { rows: [{ address: '10.0.0.1' }] });
  t.match(mirror.contents('Web', new Notes()), { rows: [{ address: '10.0.0.2' }] });
  t.equal(mirror.contents('web', new Notes())?.rows.length, 1);
});

t.test('a check counts for the instance that has its id by now, whatever service it was made for', async (t) => {
  const mirror = new ConsulMirror(POLICY, 'dc1');
  const answer = (body: unknown, index = 9) => ({ body, index, filtered: false });
  const Node = { Node: 'n1', Address: '10.9.0.1', ModifyIndex: 1 };
  // Consul leaves the name of the service as it was when the check was registered.
  const check = (Status: string, ModifyIndex: number) => {
    return { Node: 'n1', CheckID: 'c', Status, ServiceID: 'a', ServiceName: 'old', ModifyIndex };
  };
  const entry = (Service: string, Checks: object[]) => {
    return { Node, Service: { ID: 'a', Service, Address: '10.0.0.1', Port: 80, ModifyIndex: 5 }, Checks };
  };
  const state = (): string | undefined => mirror.contents('new', new Notes())?.rows[0]?.state;
  mirror.takeServices(answer({ old: [], new: [] }));
  mirror.takeNodes(answer([Node]));
  mirror.takeService('old', answer([entry('old', [check('warning', 2)])]));
  mirror.takeService('new', answer([entry('new', [check('warning', 2)])]));
  mirror.takeService('old', answer([]));
  t.equal(state(), 'warning', 'it has not gone with the other one');
  const found = mirror.takeBadChecks('critical', answer([check('critical', 10)], 10));
  t.equal(state(), 'critical');
  t.same([...(found?.changed ?? [])], ['new']);
  t.same([...(mirror.takeBadChecks('critical', answer([], 11))?.left.services ?? [])], ['new']);

  const moved = { Node, Services: [{ ID: 'a', Service: 'old', Address: '10.0.0.1', Port: 80, ModifyIndex: 12 }] };
  mirror.takeBadChecks('critical', answer([check('critical', 12)], 12));
  mirror.takeNode(answer(moved, 12), false);
  t.equal(mirror.contents('new', new Notes())?.rows.length, 0);
  t.equal(mirror.contents('old', new Notes())?.rows[0]?.state, 'critical', 'the node tells that it moved');
  mirror.takeNode(answer({ Node, Services: [{ ...moved.Services[0], Service: 'new', ModifyIndex: 13 }] }, 13), false);
  t.equal(state(), 'critical', 'and back');
});

t.test('rows say what Consul says of an instance', async (t) => {
  const service = (id: string, more: object = {}) => ({
    ID: id,
    Service: 'web',
    Port: 80,
    Address: '10.0.0.1',
    ...more,
  });
  const node = (name: string) => ({ Node: name, Address: '10.9.0.1', Datacenter: 'dc1', ModifyIndex: 1 });
  const check = (id: string, status: string, serviceId = '', more: object = {}) => ({
    Node: 'n1',
    CheckID: id,
    Status: status,
    ServiceID: serviceId,
    ServiceName: serviceId === '' ? '' : 'web',
    ModifyIndex: 2,
    ...more,
  });
  const read = (instances: object[], checks: object[] = []) => {
    const mirror = new ConsulMirror(POLICY, 'dc1');
    const answer = (body: unknown) => ({ body, index: 2, filtered: false });
    mirror.takeServices(answer({ web: [] }));
    mirror.takeNodes(answer([node('n1')]));
    mirror.takeService('web', answer(instances.map((Service) => ({ Node: node('n1'), Service, Checks: checks }))));
    mirror.takeChecks(answer(checks));
    const notes = new Notes();
    const contents = mirror.contents('web', notes)!;
    return { ...contents, notes: notes.list('') };
  };
  const meta = { 'holdfast-priority': '7', 'holdfast-port-name': 'HTTP', 'holdfast-zone': 'az-a' };
  t.match(read([service('a', { Tags: ['v1', ''], Weights: { Passing: 100_000, Warning: 2 }, Meta: meta })]).rows, [
    { id: 'a', priority: 7, portName: 'http', zone: 'az-a', weight: 65_535, tags: ['v1'], state: 'passing' },
  ]);
  t.match(read([service('a', { Address: '' })]).rows, [
    { address: '10.9.0.1', atNode: true, node: { name: 'n1', datacenter: 'dc1' } },
  ]);
  t.match(read([service('a', { Weights: { Passing: 0, Warning: 1 } })]).rows, [{ state: 'draining' }]);
  const states: [object[], string][] = [
    [[check('service:a', 'warning', 'a')], 'warning'],
    [[check('service:a', 'critical', 'a'), check('more', 'passing', 'a')], 'critical'],
    [[check('serfHealth', 'critical')], 'critical'],
    [[check('_node_maintenance', 'critical'), check('service:a', 'critical', 'a')], 'draining'],
    [[check('_service_maintenance:a', 'critical', 'a')], 'draining'],
    [[check('service:b', 'critical', 'b')], 'passing'],
  ];
  for (const [checks, state] of states) t.match(read([service('a')], checks).rows, [{ state }], JSON.stringify(checks));
  t.match(read([service('a', { Weights: { Passing: 9, Warning: 3 } })], [check('x', 'warning', 'a')]).rows, [
    { weight: 3 },
  ]);

  const portless = new ConsulMirror(new AddressPolicy([], false, true), 'dc1');
  const named = { body: { web: [] }, index: 2, filtered: false };
  portless.takeServices(named);
  const instances = ['a', 'b'].map((id) => ({
    Node: node('n1'),
    Service: service(id, { Port: id === 'a' ? undefined : 70_000 }),
  }));
  portless.takeService('web', { ...named, body: instances });
  t.match(portless.contents('web', new Notes())?.rows, [{ id: 'a', address: '10.0.0.1', port: 0 }], 'as an agent does');

  const tests: [object, object | undefined][] = [
    [{ Type: 'tcp' }, { type: 'tcp' }],
    [{ Type: 'http' }, undefined],
    [{ Type: 'ttl' }, undefined],
    [{ Definition: { HTTP: 'http://192.0.2.1:8080/health?x=1' } }, { type: 'http', port: 8080, path: '/health' }],
    [
      { Definition: { HTTP: 'https://192.0.2.1/', TLSServerName: 'web.example' } },
      { type: 'https', port: 443, path: '/', tlsName: 'web.example' },
    ],
    [{ Definition: { TCP: 'somewhere:99' } }, { type: 'tcp', port: 99 }],
    [{ Definition: { GRPC: '192.0.2.1:50/health' } }, { type: 'grpc', port: 50 }],
    [{ Definition: { ScriptArgs: ['/bin/sh'] } }, undefined],
    // R18: what no registry may say is no check; the zone's own is.
    [{ Definition: { HTTP: 'http://192.0.2.1:0/' } }, undefined],
    [{ Definition: { HTTP: `http://192.0.2.1/${'a'.repeat(2000)}` } }, undefined],
    [{ Definition: { HTTP: 'https://192.0.2.1/', TLSServerName: '.web.example' } }, undefined],
    [{ Definition: { TCP: 'somewhere:0' } }, undefined],
    [{ Definition: { TCP: 'somewhere' } }, undefined],
  ];
  for (const [more, expected] of tests) {
    t.strictSame(read([service('a')], [check('c', 'passing', 'a', more)]).check, expected, JSON.stringify(more));
  }
  const wish = { 'holdfast-check-type': 'http', 'holdfast-check-path': '/ok', 'holdfast-check-status': '200, 204' };
  t.strictSame(read([service('a', { Meta: wish })], [check('c', 'passing', 'a', { Type: 'tcp' })]).check, {
    type: 'http',
    path: '/ok',
    status: [
      [200, 200],
      [204, 204],
    ],
  });
  t.match(read([service('a', { Meta: { 'holdfast-check-type': 'exec' } })]), {
    rows: [{ id: 'a' }],
    notes: [{ where: 'web, a on n1', reason: /check.type must be one of/ }],
  });
});

t.test('R18: a check of Consul is one for all instances of a service, or none', async (t) => {
  const common = (...instances: readonly [port: number, test: object | undefined][]): object | undefined => {
    const Node = { Node: 'n1', Address: '10.0.0.1', ModifyIndex: 1 };
    const entries = instances.map(([Port, Definition], i) => ({
      Node,
      Service: { ID: `i${i}`, Service: 'web', Port, ModifyIndex: 1 },
      Checks: [{ Node: 'n1', CheckID: `c${i}`, Status: 'passing', ServiceID: `i${i}`, ServiceName: 'web', Definition }],
    }));
    const { entries: read } = readServiceAnswer(entries, 'dc1')!;
    const { check } = contentsOf('web', read.values(), POLICY, new Notes());
    const mirror = new ConsulMirror(POLICY, 'dc1');
    mirror.takeServices({ body: { web: [] }, index: 2, filtered: false });
    mirror.takeNodes({ body: [Node], index: 2, filtered: false });
    mirror.takeService('web', { body: entries, index: 2, filtered: false });
    t.strictSame(mirror.contents('web', new Notes())?.check, check, 'on demand it is the same');
    return check;
  };
  const http = (port: number, path = '/health') => ({ HTTP: `http://192.0.2.1:${port}${path}` });
  t.strictSame(common([8081, http(8081)], [8082, http(8082)]), { type: 'http', path: '/health' }, 'its own port');
  t.strictSame(common([8081, http(9000)], [8082, http(9000)]), { type: 'http', port: 9000, path: '/health' });
  t.strictSame(common([8081, { TCP: 'x:8081' }], [8082, undefined]), { type: 'tcp' }, 'one that has none agrees');
  t.strictSame(common([8081, http(9001)], [8082, http(9002)]), undefined, 'another port for each');
  t.strictSame(common([80, http(80)], [80, http(80, '/v2/health')], [80, http(80)]), undefined, 'another path');
});

t.test('what an index that moved means is looked for where nothing explains it', async (t) => {
  const plan = new ReadPlan();
  const names = (...list: string[]) => new Map(list.map((name) => [name, true]));
  plan.moved(10n, true);
  plan.want(['a', 'b', 'c']);
  for (const name of plan.wanted) {
    plan.verified('service', name, plan.begin(name));
    plan.found({ newest: 9n, lost: false, index: 10n });
  }
  t.same([plan.unexplained, plan.unverified('service', names('a', 'b', 'c'), 9)], [false, []]);
  plan.moved(12n, false);
  t.equal(plan.unexplained, true);
  t.equal(plan.traceless, false, 'the checks may tell');
  plan.compared(11n);
  t.equal(plan.traceless, false, 'not those that were asked for before it moved');
  plan.compared(12n);
  t.equal(plan.traceless, true);
  t.same(plan.unverified('service', names('a', 'b', 'c'), 9), ['a', 'b', 'c']);
  t.same(plan.unverified('service', names('a', 'b', 'c'), 2), ['a', 'b']);
  plan.verified('service', 'b', plan.begin('b'));
  plan.found({ newest: 12n, lost: false, index: 12n });
  t.equal(plan.unexplained, false);
  t.same(plan.unverified('service', names('a', 'b', 'c'), 9), ['a', 'c'], 'one change may hide another');
  t.same(plan.unverified('service', names('new', 'a', 'b'), 9), ['new', 'a'], 'those of which nothing is known first');
  t.same(plan.unverified('node', names('n1', 'n2'), 9), ['n1', 'n2']);
  plan.verified('node', 'n1', plan.index);
  t.same(plan.unverified('node', names('n1', 'n2'), 9), ['n2']);
  plan.moved(13n, false);
  plan.found({ newest: 9n, lost: true, index: 13n });
  t.equal(plan.unexplained, false, 'an instance that went leaves no index of its own');
});

t.test('a check with an odd index gives way to the next word of it', (t) => {
  const table = new CheckTable();
  const check = (Status: string, ModifyIndex: number) => {
    return { Node: 'n1', CheckID: 'x', Status, ServiceID: 'a', ServiceName: 'web', ModifyIndex };
  };
  table.takeAll([check('critical', Number.POSITIVE_INFINITY)], 5, false);
  t.equal(table.state('n1', 'a'), 'critical');
  table.takeAll([check('passing', 6)], 6, false);
  t.equal(table.state('n1', 'a'), 'passing');
  t.end();
});

t.test('an older word of a check never takes the place of a newer one', async (t) => {
  const table = new CheckTable();
  const check = (id: string, Status: string, ModifyIndex: number) => {
    return { Node: 'n1', CheckID: id, Status, ServiceID: 'a', ServiceName: 'web', ModifyIndex };
  };
  const key = groupKey('n1', 'a');
  table.takeAll([check('x', 'passing', 5), check('y', 'passing', 6)], 6, false);
  t.equal(table.state('N1', 'a'), 'passing');
  t.match(table.takeBad('critical', [check('x', 'critical', 8)], 8), { changed: [{ id: 'x' }], left: [] });
  table.takeAll([check('x', 'passing', 5)], 7, false);
  t.equal(table.state('n1', 'a'), 'critical', 'a list from before');
  t.match(table.takeBad('critical', [], 9), { left: [{ id: 'x' }] });
  t.equal(table.state('n1', 'a'), 'critical', 'until it is known');
  t.match(table.takeBad('critical', [], 10), { left: [] }, 'told once');
  t.equal(table.agrees('critical', []), true);
  table.takeGroups([key], [check('x', 'critical', 8)], 8);
  t.equal(table.doubted().length, 1, 'a server that lags does not know');
  table.takeAll([check('x', 'critical', 8)], 9, false);
  t.equal(table.doubted().length, 0, 'it is there after all');
  t.equal(table.agrees('critical', []), false);
  t.equal(table.agrees('critical', [check('x', 'critical', 8)]), true);
  t.equal(table.agrees('critical', [check('x', 'critical', 11)]), false);
  t.equal(table.agrees('critical', [{}]), undefined);
  table.takeBad('critical', [], 12);
  t.match(table.takeGroups([key], [check('x', 'passing', 12)], 12), { changed: [{ state: 'passing' }] });
  table.takeBad('warning', [check('x', 'warning', 13)], 13);
  t.match(table.takeGroups([key], [], 14), { gone: [{ id: 'x' }] });
  t.equal(table.takeBad('warning', [], 15)?.left.length, 0);
  t.equal(table.takeAll([{ Node: 7 }], 16, false), undefined);
});

t.test(
  'the list of all checks is read when it may tell something, and never for more than a fifth of the time',
  async (t) => {
    const all = new AllChecks();
    all.took(10n, 1000, 1200);
    t.equal(all.due(10n, Number.POSITIVE_INFINITY), Number.POSITIVE_INFINITY);
    t.equal(all.due(11n, Number.POSITIVE_INFINITY), 301_200);
    t.equal(all.due(11n, 5000), 5000);
    t.equal(all.due(10n, 1300), 2200);
  },
);

t.test('R6, R7: of several numbers none may go back, and what is believed in the end is another lineage', async (t) => {
  const memory = new RevisionMemory();
  t.equal(memory.judge('e', '10.20.30', 0), undefined);
  t.match(memory.judge('e', '11.19.31', 1000), { reason: 'revision went back from 10.20.30 to 11.19.31' });
  t.equal(memory.lineage, 0);
  t.equal(memory.judge('e', '11.19.32', 11_000), undefined);
  t.equal(memory.lineage, 1);
  t.equal(memory.judge('e', '11.20.32', 12_000), undefined);
});
