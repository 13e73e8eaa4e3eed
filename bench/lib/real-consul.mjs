/** A real Consul with a catalog of many services, where one is built (see test/integration/consul-build.ts). */
import { ConsulServer, findConsul } from '../../build/test/integration/consul-server.js';
import { instances, NODES } from './registry-changes.mjs';

/** Consul takes no more in one transaction than 128. */
const MOST_OPERATIONS = 120;

export class RealConsul {
  #server;

  static get isThere() {
    return findConsul() !== undefined;
  }

  static async start(folder) {
    const consul = new RealConsul();
    consul.#server = await ConsulServer.start(folder);
    return consul;
  }

  get origin() {
    return this.#server.origin;
  }

  /** Registers all instances, and the nodes that they are on. */
  async fill(services, each) {
    const operations = Array.from({ length: NODES }, (_, i) => ({
      Node: { Verb: 'set', Node: { Node: `n${i}`, Address: addressOf(i) } },
    }));
    for (const instance of instances(services, each)) {
      const { node, check, service } = entry(instance);
      operations.push({ Service: { Verb: 'set', Node: node, Service: service } });
      operations.push({ Check: { Verb: 'set', Check: { Node: node, ...check } } });
    }
    for (let i = 0; i < operations.length; i += MOST_OPERATIONS)
      await this.#server.put('txn', operations.slice(i, i + MOST_OPERATIONS));
  }

  async set(instance) {
    const { node, check, service } = entry(instance);
    const whole = { Node: node, Address: addressOf(Number(node.slice(1))), SkipNodeUpdate: true, Service: service };
    await this.#server.register(instance.status === undefined ? whole : { ...whole, Check: check });
  }

  async remove(service, id) {
    await this.#server.put('catalog/deregister', { Node: `n${Number(service.slice(1)) % NODES}`, ServiceID: id });
  }

  /** How long an answer takes, in ms, without what it takes to read it. */
  async time(path) {
    const began = performance.now();
    await this.#server.call('GET', path);
    return performance.now() - began;
  }

  async stop() {
    await this.#server.stop();
  }
}

function entry({ service, id, node, address, status }) {
  return {
    node,
    service: { ID: id, Service: service, Address: address, Port: 80 },
    // What a check says is mostly a line.
    check: { CheckID: `service:${id}`, Name: 'check', Status: status, ServiceID: id, Output: 'x'.repeat(80) },
  };
}

function addressOf(node) {
  return `10.255.${node >> 8}.${node & 255}`;
}
