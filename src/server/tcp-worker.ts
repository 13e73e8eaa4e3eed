/** The TCP answer thread. */
import { parentPort } from 'node:worker_threads';
import { HandoverWriter } from './handover.js';
import { type FromThread, type ListenMessage, PULSE, type StartMessage, type ToThread } from './messages.js';
import { Responder } from './respond.js';
import { TcpTransport } from './tcp.js';
import { failureReporter, tried } from './thread-reports.js';

/** Answers in flight at a stop have so long to leave. */
const STOP_GRACE_MS = 1_000;

const PULSE_MS = 1_000;

const port = parentPort!;
const say = (message: FromThread): void => port.postMessage(message);
let running: { readonly responder: Responder; readonly tcp: TcpTransport } | undefined;

function start(message: StartMessage): void {
  const responder = new Responder(message.handle, message.counters, message.responder);
  responder.setForward(message.forward, message.outages);
  const tcp = new TcpTransport(
    responder,
    new HandoverWriter(message.handover),
    message.tcp,
    message.counters,
    message.transportCounters,
    { failure: failureReporter(say, 'tcp'), handedOver: () => say({ type: 'handed-over' }) },
  );
  running = { responder, tcp };
  setInterval(() => Atomics.add(message.control, PULSE, 1), PULSE_MS).unref();
  listen(message.listen);
}

function listen(message: ListenMessage): void {
  void running?.tcp.listen(message.plans, message.inherited).then((failures) => say(tried(message, failures)));
}

async function stop(): Promise<void> {
  await running?.tcp.close(STOP_GRACE_MS);
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
    case 'forward':
      running?.responder.setForward(message.forward, message.outages);
      break;
    case 'keep':
      for (const answer of message.answers) running?.responder.keep(answer, performance.now());
      break;
    case 'replies':
      running?.tcp.reply(message.replies);
      break;
    case 'stop':
      void stop();
      break;
  }
});
