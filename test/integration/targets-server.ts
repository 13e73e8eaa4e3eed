/** A small server of HTTP service discovery. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

export class TargetsServer {
  readonly services = new Map<string, readonly string[]>();
  /** When set, only requests with this value of `authorization` are answered. */
  authorization: string | undefined;
  readonly #server = createServer((req, res) => {
    if (this.authorization !== undefined && req.headers.authorization !== this.authorization) {
      res.writeHead(401).end();
      return;
    }
    const groups = [...this.services].map(([job, targets]) => ({ targets, labels: { job } }));
    res.writeHead(200, { 'content-type': 'application/json; charset=utf-8' });
    res.end(JSON.stringify(groups));
  });

  static async start(): Promise<TargetsServer> {
    const server = new TargetsServer();
    server.#server.listen(0, '127.0.0.1');
    await once(server.#server, 'listening');
    return server;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}
