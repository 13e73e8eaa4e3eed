/**
 * A little HTTP backend, as a program of its own so that it can be killed: `node backend.js NAME ADDRESS PORT`.
 * It ends with the demo that started it, and lives by itself when a person started it.
 */
import { createServer } from 'node:http';

const [name = 'backend', address = '127.0.0.1', port = '8081'] = process.argv.slice(2);

const server = createServer((request, response) => {
  response.setHeader('content-type', 'text/plain');
  response.end(request.url === '/healthz' ? 'ok\n' : `this is ${name}\n`);
});
server.on('error', (error) => {
  process.stderr.write(`${name}: ${error.message}\n`);
  process.exit(1);
});
server.listen(Number(port), address, () => process.send?.('ready'));

if (process.send) process.on('disconnect', () => process.exit(0));
// Ctrl-C reaches the whole group; the demo ends its backends itself.
if (process.send) process.on('SIGINT', () => {});
