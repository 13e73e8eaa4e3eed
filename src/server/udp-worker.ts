/** A UDP answer thread: batched where it is asked for and to be had, portable otherwise. */
import { parentPort, workerData } from 'node:worker_threads';
import { BatchedUdp, TransportUnusable } from './batched-udp.js';
import { HandoverWriter } from './handover.js';
import { type LinuxCalls, loadLinuxCalls } from './linux-calls.js';
import { createEventFd } from './linux-sockets.js';
import { EVENT_FD, type FromThread, type ListenMessage, PULSE, type StartMessage, type ToThread } from './messages.js';
import type { PortableUdp } from './portable-udp.js';
import { Responder } from './respond.js';
import { errorText, failureReporter, tried } from './thread-reports.js';

/** Answers that the kernel does not take at once have so long to leave at a stop. */
const STOP_GRACE_MS = 1_000;
/** More than other processes of this core get, so that a burning control thread delays no answer. */
const PRIORITY = -10;
const USUAL_PRIORITY = 0;
const PRIO_PROCESS = 0;
/** The least that the kernel takes: a thread that wakes to answer waits for no other's turn to end. */
const SLICE_NS = 100_000;
const PULSE_MS = 1_000;

export interface UdpWorkerData {
  /** Load the native calls at once, while the control thread reads its configuration; else the portable transport. */
  readonly native: boolean;
}

const port = parentPort!;
const say = (message: FromThread): void => port.postMessage(message);
const failure = failureReporter(say, 'udp');
const handedOver = (): void => say({ type: 'handed-over' });
const log = (level: 'info' | 'warn', event: string, fields: Readonly<Record<string, unknown>>): void =>
  say({ type: 'log', level, event, fields });

const { native } = workerData as UdpWorkerData;
const early = native ? loadLinuxCalls() : undefined;
if (!native) void import('./portable-udp.js');
let portable: { readonly responder: Responder; readonly udp: PortableUdp } | undefined;

async function start(message: StartMessage): Promise<void> {
  const responder = new Responder(message.handle, message.counters, message.responder);
  responder.setForward(message.forward, message.outages);
  const handover = new HandoverWriter(message.handover);
  let reason: string | undefined;
  if (message.transport === 'batched') {
    const calls = early ?? loadLinuxCalls();
    reason = typeof calls === 'string' ? calls : runBatched(calls, responder, handover, message);
    if (reason === undefined) {
      port.close();
      return;
    }
  }
  const { PortableUdp } = await import('./portable-udp.js');
  const udp = new PortableUdp(
    responder,
    handover,
    message.counters,
    message.transportCounters,
    {
      failure,
      log,
      handedOver,
    },
    message.responder.maxUdp,
  );
  portable = { responder, udp };
  setInterval(() => Atomics.add(message.control, PULSE, 1), PULSE_MS).unref();
  say({ type: 'transport', transport: 'portable', ...(reason === undefined ? {} : { reason }) });
  await listen(message.listen);
}

/** Returns when it has been stopped, or at once with the reason why it cannot begin. */
function runBatched(
  calls: LinuxCalls,
  responder: Responder,
  handover: HandoverWriter,
  message: StartMessage,
): string | undefined {
  if (Atomics.load(message.control, EVENT_FD) < 0) {
    const fd = createEventFd(calls);
    if (fd < 0) return 'eventfd is refused';
    Atomics.store(message.control, EVENT_FD, fd);
  }
  // Refused without CAP_SYS_NICE or LimitNICE=: then as before.
  calls.setpriority(PRIO_PROCESS, 0, PRIORITY);
  calls.setslice(SLICE_NS);
  const udp = new BatchedUdp({
    calls,
    responder,
    handover,
    handle: message.handle,
    maxUdp: message.responder.maxUdp,
    control: message.control,
    counters: message.counters,
    transportCounters: message.transportCounters,
    port,
    events: { failure, log, tried: say, handedOver },
  });
  say({ type: 'transport', transport: 'batched' });
  try {
    udp.listen(message.listen);
    udp.run();
  } catch (error) {
    if (!(error instanceof TransportUnusable)) {
      // The end of a thread takes milliseconds: who takes its place goes before.
      calls.setpriority(PRIO_PROCESS, 0, USUAL_PRIORITY);
      say({ type: 'failed', error: errorText(error) });
      throw error;
    }
    say({ type: 'unusable', reason: error.message });
  }
  return undefined;
}

async function listen(message: ListenMessage): Promise<void> {
  if (!portable) return;
  // One of several threads that have all fallen back: the first one binds, this one is about to be let go.
  const plans = message.bind > 0 ? message.plans : [];
  say(tried(message, await portable.udp.listen(plans, message.inherited)));
}

async function stop(): Promise<void> {
  await portable?.udp.close(STOP_GRACE_MS);
  port.close();
}

/** One after the other: a message may come while the first one still loads. */
let handled: Promise<void> = Promise.resolve();

async function handle(message: ToThread): Promise<void> {
  switch (message.type) {
    case 'start':
      return start(message);
    case 'listen':
      return listen(message);
    case 'table':
      portable?.responder.update(message.handle);
      return;
    case 'forward':
      portable?.responder.setForward(message.forward, message.outages);
      return;
    case 'keep':
      for (const answer of message.answers) portable?.responder.keep(answer, performance.now());
      return;
    case 'replies':
      portable?.udp.reply(message.replies);
      return;
    case 'stop':
      return stop();
  }
}

port.on('message', (message: ToThread) => {
  handled = handled.then(() => handle(message));
});
