/** The process of `lib/own-fake-consul.mjs`. */
import { FakeConsul } from '../../build/test/fake-consul.js';

let consul;

const OPERATIONS = {
  start: async () => {
    consul = await FakeConsul.start();
    return consul.origin;
  },
  set: (instances) => {
    for (const { service, ...instance } of instances) consul.set(service, instance);
  },
  remove: ({ service, id }) => consul.remove(service, id),
  counts: () => {
    return { requests: consul.requests.length, inFlight: consul.mostInFlight, aSecond: consul.mostInASecond() };
  },
};

process.on('message', async ({ id, op, value }) => process.send({ id, result: await OPERATIONS[op](value) }));
process.on('disconnect', () => process.exit());
