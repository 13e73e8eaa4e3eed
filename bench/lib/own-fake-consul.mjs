/** A fake of Consul in a process of its own, so that it costs the benchmark and what is measured nothing. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

const PROGRAM = fileURLToPath(new URL('../inside/fake-consul.mjs', import.meta.url));

export class OwnFakeConsul {
  #child;
  #calls = new Map();
  #last = 0;

  static async start() {
    const consul = new OwnFakeConsul();
    consul.#child = fork(PROGRAM, { serialization: 'advanced' });
    consul.#child.on('message', ({ id, result }) => {
      consul.#calls.get(id)?.(result);
      consul.#calls.delete(id);
    });
    consul.origin = await consul.#call('start');
    return consul;
  }

  /** Registers instances, each with the name of its service. */
  async set(...instances) {
    await this.#call('set', instances);
  }

  async remove(service, id) {
    await this.#call('remove', { service, id });
  }

  /** How many requests there were, how many at once, and how many in the busiest second. */
  async counts() {
    return await this.#call('counts');
  }

  async stop() {
    const exit = once(this.#child, 'exit');
    this.#child.kill();
    await exit;
  }

  #call(op, value) {
    const id = ++this.#last;
    return new Promise((resolve) => {
      this.#calls.set(id, resolve);
      this.#child.send({ id, op, value });
    });
  }
}
