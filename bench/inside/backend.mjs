/** `backend.mjs PORT`: HTTP at one port of every address of this machine, until it is killed. Says `ready`. */
import { createServer } from 'node:http';

const server = createServer((_request, response) => response.end('ok'));
server.listen(Number(process.argv[2]), '0.0.0.0', 4096, () => process.stdout.write('ready\n'));
