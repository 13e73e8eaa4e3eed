/** A resolver and a prober, the real ones, with endpoints that are all well: none of them may leave the answers. */
import { writeFileSync } from 'node:fs';
import { get } from 'node:http';
import type { StatusDocument } from '../../src/admin/documents.js';
import { freePort, Host, type Process, until } from './program.js';

export interface SceneOptions {
  /** The check of all services, as it stands in a configuration. */
  readonly check: string;
  /** `ADDRESS:PORT` by service. */
  readonly services: Readonly<Record<string, readonly string[]>>;
  /** The prober's part of the configuration. */
  readonly prober?: string;
}

export class ProberScene {
  readonly host: Host;
  readonly resolver: Process;
  readonly admin: number;
  readonly #services: SceneOptions['services'];
  prober: Process;

  private constructor(host: Host, resolver: Process, admin: number, services: SceneOptions['services']) {
    this.host = host;
    this.resolver = resolver;
    this.admin = admin;
    this.#services = services;
    this.prober = host.probe();
  }

  /** Resolves when every endpoint has passed. */
  static async start(
    test: { teardown(end: () => unknown): void },
    // However small the table of this machine is: what is asked for here is done.
    { check, services, prober = '{ conntrackShare: 1 }' }: SceneOptions,
  ): Promise<ProberScene> {
    const host = new Host();
    test.teardown(() => host.dispose());
    const admin = await freePort();
    host.port = await freePort();
    host.configure([`services: { "*": { check: ${check} } }`], [`admin: "127.0.0.1:${admin}"`, `prober: ${prober}`]);
    const lines = Object.entries(services).flatMap(([name, endpoints]) => {
      const listed = endpoints.map((endpoint) => {
        const at = endpoint.lastIndexOf(':');
        return `{ address: ${endpoint.slice(0, at)}, port: ${endpoint.slice(at + 1)} }`;
      });
      return [`  ${name}:`, `    endpoints: [${listed.join(', ')}]`];
    });
    writeFileSync(host.registry, `services:\n${lines.join('\n')}\n`);
    const scene = new ProberScene(host, await host.serve(), admin, services);
    await until('first verdicts', async () => (await scene.passes()) >= scene.size);
    return scene;
  }

  /** How many endpoints there are. */
  get size(): number {
    return Object.values(this.#services).reduce((sum, { length }) => sum + length, 0);
  }

  passes(): Promise<number> {
    return this.metric('holdfast_probe_results_total{outcome="pass"}');
  }

  /** Results so far that were not good. */
  async failures(): Promise<number> {
    const lines = (await this.metrics()).matchAll(/^holdfast_probe_results_total\{outcome="(?!pass)[^"]*"\} (\d+)/gm);
    return [...lines].reduce((sum, [, count]) => sum + Number(count), 0);
  }

  /** The first value of a metric, by the beginning of its line. */
  async metric(name: string): Promise<number> {
    const line = (await this.metrics()).split('\n').find((one) => one.startsWith(name));
    return line === undefined ? Number.NaN : Number(line.split(' ').at(-1));
  }

  metrics(): Promise<string> {
    return new Promise((done, fail) => {
      get({ host: '127.0.0.1', port: this.admin, path: '/metrics', agent: false }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (data) => (text += data));
        response.on('end', () => done(text));
      }).on('error', fail);
    });
  }

  problems(): string {
    return this.host.json<StatusDocument>('status').problems.join('\n');
  }

  /** How often the resolver said so in its log. */
  count(event: string): number {
    return this.resolver.events().filter((line) => line.event === event).length;
  }

  /** Waits for something, and sees to it that all endpoints are answered as long as that takes. */
  async meanwhile(what: string, look: () => Promise<boolean> | boolean): Promise<void> {
    let lost: string | undefined;
    await until(what, async () => {
      lost = await this.#lost();
      return lost !== undefined || look();
    });
    lost ??= await this.#lost();
    if (lost !== undefined) throw new Error(lost);
  }

  /** The same for a while. */
  async lasting(ms: number): Promise<void> {
    const end = performance.now() + ms;
    await this.meanwhile('the end', () => performance.now() >= end);
  }

  /** Which endpoints are not answered, if any. Rejects when there is no answer at all, which may be the machine's slowness. */
  async #lost(): Promise<string | undefined> {
    for (const [name, { length }] of Object.entries(this.#services)) {
      const { answers } = await this.host.ask(`${name} +tcp`);
      if (answers.length !== length) return `${name}: ${answers.length} of ${length} are answered`;
    }
    return undefined;
  }
}
