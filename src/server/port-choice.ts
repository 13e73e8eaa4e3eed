/** Picks ports for listen addresses that leave them open: one for UDP and TCP alike. */
import { createServer } from 'node:net';
import type { ListenAddress } from '../config/types.js';

/** `listen` with every port 0 filled in: by the choice made for the same place before, or by the kernel. */
export async function choosePorts(
  listen: readonly ListenAddress[],
  before: readonly ListenAddress[],
): Promise<ListenAddress[]> {
  const chosen: ListenAddress[] = [];
  for (const [i, entry] of listen.entries()) {
    if (entry.port !== 0) chosen.push(entry);
    else if (before[i]?.address === entry.address) chosen.push(before[i]);
    else chosen.push({ address: entry.address, port: await freePort(entry.address) });
  }
  return chosen;
}

/** Port 0 again when the address cannot be bound at all: the listeners find out why. */
function freePort(address: string): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(0));
    server.listen({ host: address, port: 0, exclusive: true }, () => {
      const bound = server.address();
      server.close(() => resolve(bound !== null && typeof bound === 'object' ? bound.port : 0));
    });
  });
}
