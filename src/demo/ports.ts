/** Free ports, the well-known ones of the demo first. */
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

const TRIES = 200;

/** The first port from `preferred` on that is free at `address`, over TCP and, with `udp`, over UDP too. */
export async function freePort(
  address: string,
  preferred: number,
  options: { readonly udp?: boolean; readonly taken?: ReadonlySet<number> } = {},
): Promise<number> {
  for (let port = preferred; port < preferred + TRIES; port++) {
    if (options.taken?.has(port)) continue;
    if ((await tcpFree(address, port)) && (!options.udp || (await udpFree(address, port)))) return port;
  }
  throw new Error(`no free port at ${address} from ${preferred} to ${preferred + TRIES - 1}`);
}

function tcpFree(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ host: address, port, exclusive: true }, () => server.close(() => resolve(true)));
  });
}

function udpFree(address: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = createSocket('udp4');
    socket.once('error', () => {
      socket.close();
      resolve(false);
    });
    socket.bind({ address, port, exclusive: true }, () => socket.close(() => resolve(true)));
  });
}
