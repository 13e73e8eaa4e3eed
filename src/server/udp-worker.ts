/** A UDP answer thread: batched where the platform has it, portable elsewhere. */
import { parentPort } from 'node:worker_threads';
import type { FromThread, ListenMessage, StartMessage, ToThread } from './messages.js';
import { PortableUdp } from './portable-udp.js';
import { Responder } from './respond.js';
import { failureReporter, tried } from './thread-reports.js';

/** Answers that the kernel does not take at once have so long to leave at a stop. */
const STOP_GRACE_MS = 1_000;

const port = parentPort!;
const say = (message: FromThread): void => port.postMessage(message);
let running: { readonly responder: Responder; readonly udp: PortableUdp } | undefined;

function start(message: StartMessage): void {
  const responder = new Responder(message.handle, message.counters, message.responder);
  const udp = new PortableUdp(responder, message.transportCounters, {
    failure: failureReporter(say, 'udp'),
    log: (level, event, fields) => say({ type: 'log', level, event, fields }),
  });
  running = { responder, udp };
  say({ type: 'transport', transport: 'portable' });
  listen(message.listen);
}

function listen(message: ListenMessage): void {
  void running?.udp.listen(message.plans).then((failures) => say(tried(message, failures)));
}

async function stop(): Promise<void> {
  await running?.udp.close(STOP_GRACE_MS);
  port.close();
}

port.on('message', (message: ToThread) => {
  switch (message.type) {
    case 'start':
      start(message);
      break;
    case 'listen':
      listen(message);
      break;
    case 'table':
      running?.responder.update(message.handle);
      break;
    case 'stop':
      void stop();
      break;
  }
});
