/** Consul as far as a mirror of its catalog asks for it, with faults to switch on, and counts of what it is asked. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';

/** Put together one after the other, between requests for less, which Consul does not keep waiting for them either. */
const LARGE = /^(?:catalog\/services|catalog\/nodes|internal\/ui\/services|health\/state\/(?:any|critical|warning))$/;

export interface FakeInstance {
  readonly id: string;
  readonly node: string;
  readonly address?: string;
  readonly port?: unknown;
  readonly tags?: readonly string[];
  readonly meta?: Readonly<Record<string, string>>;
  readonly weights?: object;
  /** Absent: without a check. */
  readonly status?: string;
}

interface Stored extends FakeInstance {
  readonly index: number;
  readonly checkIndex: number;
}

/** How answers differ from those of a healthy leader. */
export interface FakeFaults {
  /** Headers of all answers, or of those to questions that any server may answer. */
  readonly headers?: Readonly<Record<string, string>>;
  /** These have `headers`, not all. */
  readonly headersOf?: RegExp;
  readonly staleHeaders?: Readonly<Record<string, string>>;
  /** A status in place of an answer, where the path matches. */
  readonly status?: { readonly path: RegExp; readonly status: number };
  /** Only the leader is asked in vain. */
  readonly noLeader?: boolean;
  /** Answers to these datacenters fail. */
  readonly noPathTo?: string;
  /** A body in place of the true one. */
  readonly body?: { readonly path: RegExp; readonly body: string };
  /** Questions that wait get no answer, where the path matches. */
  readonly mute?: RegExp;
  /** Services that the token does not see. */
  readonly hidden?: (service: string) => boolean;
  /** The same of one token: services, and instances of them by their node. */
  readonly hiddenFrom?: Readonly<Record<string, (service: string, node?: string) => boolean>>;
  /** Tokens that are not good any more. */
  readonly revoked?: readonly string[];
}

export class FakeConsul {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #services = new Map<string, Map<string, Stored>>();
  readonly #serviceIndexes = new Map<string, number>();
  readonly #nodes = new Map<string, { readonly address: string; readonly index: number }>();
  readonly #nodeChecks = new Map<string, { readonly status: string; readonly index: number }>();
  /** Release marks, by key. */
  readonly #marks = new Map<string, string>();
  readonly #waiting = new Set<() => void>();
  #large: Promise<unknown> = Promise.resolve();
  /** Checks by service, as text: the list of all is put together from them. */
  readonly #texts = new Map<string, string>();
  readonly #cache = new Map<string, { readonly index: number; readonly body: string }>();
  #indexes = { services: 10, checks: 10, nodes: 10, marks: 10 };
  /** When the list of checks in a state last became another. */
  #stateIndexes: Record<string, number> = {};
  #index = 10;
  /** From whom is answered just now. */
  #hidden: ((service: string, node?: string) => boolean) | undefined;
  faults: FakeFaults = {};
  /** Watches of single services are answered as Consul does it since 1.10, from what it streams to its agents. */
  streaming = false;
  /** Each request: its path with the query, and when it came. */
  readonly requests: { readonly path: string; readonly at: number }[] = [];
  /** The token of each request that is under way. */
  readonly tokens: string[] = [];
  inFlight = 0;
  mostInFlight = 0;
  /** Of each answer about one service. */
  serviceDelay = 0;
  /** Of each summary. */
  summaryDelay = 0;
  trustDomain = 'one.consul';
  datacenter = 'dc1';
  /** What answers for other datacenters; this one for all others. */
  readonly elsewhere = new Map<string, FakeConsul>();

  private constructor() {
    this.#server = createServer((req, res) => void this.#handle(req, res));
    this.#server.on('connection', (socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  static async start(): Promise<FakeConsul> {
    const fake = new FakeConsul();
    fake.#server.listen(0, '127.0.0.1');
    await once(fake.#server, 'listening');
    return fake;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async stop(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  /** Connections that are open. */
  get connections(): readonly Socket[] {
    return [...this.#sockets];
  }

  setNode(name: string, address: string): void {
    this.#index++;
    this.#nodes.set(name, { address, index: this.#index });
    this.#indexes.nodes = this.#index;
    this.#wake();
  }

  /** Registers an instance, or changes it; its check has another index only when its status is another. */
  set(service: string, instance: FakeInstance): void {
    const index = ++this.#index;
    let instances = this.#services.get(service);
    if (instances === undefined) this.#services.set(service, (instances = new Map()));
    if (!this.#nodes.has(instance.node)) {
      this.#nodes.set(instance.node, { address: '10.255.0.1', index });
      this.#indexes.nodes = index;
    }
    const known = instances.get(instance.id);
    const sameCheck = known?.status === instance.status;
    const sameInstance =
      known !== undefined &&
      JSON.stringify({ ...instance, status: 0 }) ===
        JSON.stringify({ ...known, status: 0, index: undefined, checkIndex: undefined });
    instances.set(instance.id, {
      ...instance,
      index: sameInstance ? known.index : index,
      checkIndex: sameCheck && known !== undefined ? known.checkIndex : index,
    });
    if (!sameInstance) this.#indexes.services = index;
    if (!sameCheck) this.#checkChanged(known?.status, instance.status);
    this.#changed(service, index);
  }

  remove(service: string, id: string): void {
    const index = ++this.#index;
    const instances = this.#services.get(service);
    const known = instances?.get(id);
    if (instances === undefined || known === undefined) return;
    instances.delete(id);
    if (instances.size === 0) this.#services.delete(service);
    this.#indexes.services = index;
    if (known.status !== undefined) this.#checkChanged(known.status, undefined);
    this.#changed(service, index);
  }

  /** Another store, whose index begins again. */
  wipe(index = 5): void {
    this.#services.clear();
    this.#nodes.clear();
    this.#serviceIndexes.clear();
    this.#index = index;
    this.#indexes = { services: index, checks: index, nodes: index, marks: index };
    this.#stateIndexes = { critical: index, warning: index };
    this.#texts.clear();
    this.#wake();
  }

  /** A check of the node itself; without a status it is there no more. */
  setNodeCheck(node: string, status: string | undefined): void {
    const index = ++this.#index;
    const before = this.#nodeChecks.get(node)?.status;
    if (status === undefined) this.#nodeChecks.delete(node);
    else this.#nodeChecks.set(node, { status, index });
    this.#checkChanged(before, status);
    this.#wake();
  }

  setMark(key: string, time: string): void {
    this.#marks.set(key, Buffer.from(time).toString('base64'));
    this.#indexes.marks = ++this.#index;
    this.#wake();
  }

  /** As when a check that passes says so in other words. */
  touchChecks(): void {
    this.#indexes.checks = ++this.#index;
    this.#wake();
  }

  #checkChanged(...states: readonly (string | undefined)[]): void {
    this.#indexes.checks = this.#index;
    for (const state of states) if (state !== undefined) this.#stateIndexes[state] = this.#index;
  }

  #changed(service: string, index: number): void {
    this.#serviceIndexes.set(service, index);
    this.#texts.delete(service);
    this.#wake();
  }

  /** How many requests matched. */
  count(path: RegExp): number {
    return this.requests.filter((request) => path.test(request.path)).length;
  }

  /** The most requests that came within a second. */
  mostInASecond(): number {
    return mostWithin(
      this.requests.map(({ at }) => at),
      1000,
    );
  }

  #wake(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const url = new URL(req.url ?? '/', 'http://fake');
    const path = url.pathname.replace('/v1/', '');
    const other = this.elsewhere.get(url.searchParams.get('dc') ?? '');
    if (other !== undefined) return await other.#handle(req, res);
    this.requests.push({ path: `${path}${url.search}`, at: performance.now() });
    this.inFlight++;
    this.mostInFlight = Math.max(this.mostInFlight, this.inFlight);
    const token = String(req.headers['x-consul-token'] ?? '');
    this.tokens.push(token);
    res.once('close', () => {
      this.inFlight--;
      this.tokens.splice(this.tokens.indexOf(token), 1);
    });
    res.on('error', () => undefined);
    const after = url.searchParams.get('index');
    if (after !== null && this.faults.mute?.test(path)) await once(res, 'close');
    else if (after !== null)
      await this.#change(path, Number(after), Number.parseInt(url.searchParams.get('wait') ?? '0', 10), res);
    else if (path.startsWith('health/service/') && this.serviceDelay > 0) {
      await new Promise((resolve) => setTimeout(resolve, this.serviceDelay));
    } else if (path.startsWith('internal/') && this.summaryDelay > 0) {
      await new Promise((resolve) => setTimeout(resolve, this.summaryDelay).unref());
    }
    if (LARGE.test(path) && !url.searchParams.has('node-meta'))
      await (this.#large = this.#large.then(() => setImmediate()));
    if (!res.destroyed) this.#answer(path, url.searchParams, token, res);
  }

  /** Until the index of a list is greater. */
  #change(path: string, index: number, wait: number, res: ServerResponse): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(look);
        resolve();
      };
      // As in Consul: what is newer is answered at once; later, what is in the list has to be another.
      const first = this.#indexOf(path);
      const state = /^health\/state\/(?:critical|warning)$/.exec(path)?.[0]?.slice('health/state/'.length);
      const look = (): void => {
        if (first !== index || state === undefined) {
          if (this.#indexOf(path) !== index) end();
        } else if ((this.#stateIndexes[state] ?? 0) > index || this.#indexes.checks < index) end();
      };
      const timer = setTimeout(end, wait);
      this.#waiting.add(look);
      res.once('close', end);
      look();
    });
  }

  #indexOf(path: string): number {
    if (path === 'catalog/services') return this.#indexes.services;
    if (path === 'catalog/nodes') return this.#indexes.nodes;
    if (path.startsWith('health/state/')) return this.#indexes.checks;
    if (path.startsWith('health/service/')) {
      const known = this.#serviceIndexes.get(decodeURIComponent(path.slice('health/service/'.length)));
      return known ?? Math.max(this.#indexes.services, this.#indexes.checks, this.#indexes.nodes);
    }
    if (path.startsWith('catalog/node-services/')) return Math.max(this.#indexes.services, this.#indexes.nodes);
    if (path === 'internal/ui/services') return Math.max(...Object.values(this.#indexes));
    if (path.startsWith('kv/')) return this.#indexes.marks;
    return 10;
  }

  #answer(path: string, params: URLSearchParams, token: string, res: ServerResponse): void {
    this.#hidden = this.faults.hidden ?? this.faults.hiddenFrom?.[token];
    if (this.faults.revoked?.includes(token)) return void res.writeHead(403).end('ACL not found');
    const { headers, headersOf, staleHeaders, status, noLeader, noPathTo, body } = this.faults;
    const stale = params.has('stale');
    if (status?.path.test(path)) return void res.writeHead(status.status).end('');
    if (noLeader && !stale) return void res.writeHead(500).end('No cluster leader');
    if (noPathTo !== undefined && params.get('dc') === noPathTo) {
      return void res.writeHead(500).end('No path to datacenter');
    }
    const presence = params.has('node-meta');
    const index = presence ? Math.max(this.#indexes.services, this.#indexes.nodes) : this.#indexOf(path);
    const streamed = this.streaming && params.has('index') && path.startsWith('health/service/');
    const text = body?.path.test(path) ? body.body : presence ? '{}' : this.#body(path);
    res.writeHead(text === undefined ? 404 : 200, {
      'content-type': 'application/json',
      'x-consul-index': String(index),
      'x-consul-knownleader': String(!streamed),
      'x-consul-query-backend': streamed ? 'streaming' : 'blocking-query',
      'x-consul-lastcontact': '0',
      ...(this.#hidden === undefined || streamed ? {} : { 'x-consul-results-filtered-by-acls': 'true' }),
      ...(headersOf === undefined || headersOf.test(path) ? headers : {}),
      ...(stale ? staleHeaders : {}),
    });
    res.end(text);
  }

  /** Lists are put together once an index: they are large. */
  #body(path: string): string | undefined {
    if (path === 'connect/ca/roots') return JSON.stringify({ TrustDomain: this.trustDomain });
    if (path.startsWith('kv/'))
      return this.#marks.size === 0
        ? undefined
        : JSON.stringify([...this.#marks].map(([Key, Value]) => ({ Key, Value })));
    if (path === 'health/state/none') return '[]';
    if (path.startsWith('health/service/'))
      return this.#service(decodeURIComponent(path.slice('health/service/'.length)));
    if (path.startsWith('catalog/node-services/'))
      return this.#nodeServices(decodeURIComponent(path.slice('catalog/node-services/'.length)));
    if (path !== 'health/state/any' && path.startsWith('health/state/'))
      return this.#checksIn(path.slice('health/state/'.length));
    const index = this.#indexOf(path);
    const known = this.#cache.get(path);
    if (known?.index === index && this.#hidden === undefined) return known.body;
    const lists: Record<string, () => string> = {
      'catalog/services': () => this.#list(),
      'catalog/nodes': () => this.#nodeList(),
      'internal/ui/services': () => this.#summary(),
    };
    const body = lists[path]?.() ?? this.#checks();
    if (this.#hidden === undefined) this.#cache.set(path, { index, body });
    return body;
  }

  #list(): string {
    const hidden = this.#hidden;
    const names = [...this.#services].filter(([name]) => hidden?.(name) !== true);
    const tags = names.map(([name, instances]) => {
      return [name, [...new Set([...instances.values()].flatMap((instance) => instance.tags ?? []))]] as const;
    });
    return JSON.stringify(Object.fromEntries(tags));
  }

  #summary(): string {
    const hidden = this.#hidden;
    const shown = [...this.#services].filter(([name]) => hidden?.(name) !== true);
    return JSON.stringify(
      shown.map(([Name, instances]) => {
        const nodes = new Set([...instances.values()].map(({ node }) => node));
        return { Name, Datacenter: this.datacenter, Tags: null, Nodes: [...nodes], InstanceCount: instances.size };
      }),
    );
  }

  #nodeList(): string {
    return JSON.stringify([...this.#nodes.keys()].map((name) => this.#node(name)));
  }

  #node(name: string): object {
    const { address, index } = this.#nodes.get(name)!;
    return { Node: name, Address: address, Datacenter: this.datacenter, Meta: { rack: 'a' }, ModifyIndex: index };
  }

  #checks(): string {
    const hidden = this.#hidden;
    const texts: string[] = [];
    for (const [service, instances] of this.#services) {
      if (hidden?.(service) === true) continue;
      let text = this.#texts.get(service);
      if (text === undefined) {
        const checks = [...instances.values()].flatMap((instance) => this.#checksOf(service, instance));
        text = checks.map((check) => JSON.stringify(check)).join();
        this.#texts.set(service, text);
      }
      if (text !== '') texts.push(text);
    }
    for (const node of this.#nodeChecks.keys()) texts.push(...this.#ofNode(node).map((check) => JSON.stringify(check)));
    return `[${texts.join()}]`;
  }

  #checksIn(state: string): string {
    const hidden = this.#hidden;
    const checks: object[] = [];
    for (const [service, instances] of this.#services) {
      if (hidden?.(service) === true) continue;
      for (const instance of instances.values()) {
        if (instance.status === state) checks.push(...this.#checksOf(service, instance));
      }
    }
    for (const [node, { status }] of this.#nodeChecks) if (status === state) checks.push(...this.#ofNode(node));
    return JSON.stringify(checks);
  }

  #ofNode(node: string): object[] {
    const check = this.#nodeChecks.get(node);
    if (check === undefined) return [];
    const { status, index } = check;
    return [{ Node: node, CheckID: 'serfHealth', Status: status, ServiceID: '', ServiceName: '', ModifyIndex: index }];
  }

  #checksOf(service: string, { id, node, status, checkIndex }: Stored): object[] {
    if (status === undefined) return [];
    const check = { Node: node, CheckID: `service:${id}`, Name: 'check', Status: status, Output: 'x'.repeat(80) };
    return [{ ...check, ServiceID: id, ServiceName: service, Type: 'ttl', Definition: {}, ModifyIndex: checkIndex }];
  }

  #service(name: string): string {
    if (this.#hidden?.(name) === true) return '[]';
    const shown = [...(this.#services.get(name)?.values() ?? [])].filter(({ node }) => !this.#hidden?.(name, node));
    const entries = shown.map((instance) => ({
      Node: this.#node(instance.node),
      Service: this.#instance(name, instance),
      Checks: [...this.#ofNode(instance.node), ...this.#checksOf(name, instance)],
    }));
    return JSON.stringify(entries);
  }

  #nodeServices(node: string): string {
    if (!this.#nodes.has(node)) return '{"Node":null,"Services":null}';
    const services: object[] = [];
    for (const [name, instances] of this.#services) {
      if (this.#hidden?.(name) === true) continue;
      for (const instance of instances.values()) {
        if (instance.node === node && !this.#hidden?.(name, node)) services.push(this.#instance(name, instance));
      }
    }
    return JSON.stringify({ Node: this.#node(node), Services: services });
  }

  #instance(name: string, instance: Stored): object {
    return {
      ID: instance.id,
      Service: name,
      Address: instance.address ?? '',
      Port: instance.port ?? 80,
      Tags: instance.tags ?? [],
      Meta: instance.meta ?? {},
      Weights: instance.weights ?? { Passing: 1, Warning: 1 },
      ModifyIndex: instance.index,
    };
  }
}

/** The most of `times`, in order, that lie within so long. */
export function mostWithin(times: readonly number[], ms: number): number {
  let most = 0;
  let from = 0;
  for (const [i, at] of times.entries()) {
    while (at - times[from]! >= ms) from++;
    most = Math.max(most, i - from + 1);
  }
  return most;
}
