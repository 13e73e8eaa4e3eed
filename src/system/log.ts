/**
 * The log: one line a state change, with a stable `event` and its fields. JSON by pino; with priorities under journald;
 * short lines for people on a terminal. pino is loaded after the first answer: lines before it wait in memory.
 */
import { fstatSync } from 'node:fs';
import { createRequire } from 'node:module';
import { isatty } from 'node:tty';
import type { BootMs } from './clock.js';
import { FloodGate } from './log-flood.js';
import { type LogSink, openLogSink } from './log-sink.js';

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error';
export type LogFields = Readonly<Record<string, unknown>>;
export type Log = (level: LogLevel, event: string, fields?: LogFields) => void;

export interface LogOptions {
  readonly level: LogLevel;
  /** Such as `resolver`: which of the programs speaks. */
  readonly name: string;
  /** 1 by default: standard output. */
  readonly fd?: number;
  readonly env?: NodeJS.ProcessEnv;
  /** The same lines without pino, for a process that must stay small. */
  readonly small?: boolean;
  /** Boot time, for the flood protection. */
  readonly now: () => BootMs;
}

export interface OpenLog {
  readonly log: Log;
  setLevel(level: LogLevel): void;
  /** Loads what writes and writes what waits. Called once the first answer is out; a crash or the end does it too. */
  start(): void;
  /** Writes what waits and the flood's sums, and stops the timer. */
  close(): void;
}

const LEVELS: Readonly<Record<LogLevel, number>> = { trace: 10, debug: 20, info: 30, warn: 40, error: 50 };
/** sd-daemon(3) */
const PRIORITY: Readonly<Record<LogLevel, string>> = {
  trace: '<7>',
  debug: '<7>',
  info: '<6>',
  warn: '<4>',
  error: '<3>',
};
/** Values of such fields are secrets, wherever they come from. */
const SECRET = /token|password|secret|authorization|cookie|credential/i;
const MAX_WAITING_LINES = 10_000;
const SUM_INTERVAL_MS = 10_000;

type Write = (level: LogLevel, wall: number, event: string, fields: LogFields) => void;

export function openLog(options: LogOptions): OpenLog {
  const fd = options.fd ?? 1;
  const env = options.env ?? process.env;
  const gate = new FloodGate();
  let level = LEVELS[options.level];
  let write: Write | undefined;
  let waiting: Parameters<Write>[] = [];
  let timer: NodeJS.Timeout | undefined;

  const put: Write = (...line) => {
    if (write) write(...line);
    else if (waiting.length < MAX_WAITING_LINES) waiting.push(line);
  };
  const sum = (now: BootMs) => {
    for (const { key, count } of gate.collect(now)) {
      put('warn', Date.now(), 'log-suppressed', { of: key, lines: count });
    }
    if (!gate.pending && timer) timer = void clearInterval(timer) as undefined;
  };
  const start = () => {
    if (write) return;
    write = openWriter(options.name, fd, env, options.small === true);
    for (const line of waiting) write(...line);
    waiting = [];
  };
  process.once('exit', start);

  return {
    log(at, event, fields = {}) {
      if (LEVELS[at] < level) return;
      if (!gate.admit(floodKey(event, fields), options.now())) return;
      timer ??= setInterval(() => sum(options.now()), SUM_INTERVAL_MS).unref();
      put(at, Date.now(), event, redact(fields));
    },
    setLevel(to) {
      level = LEVELS[to];
    },
    start,
    close() {
      sum(Infinity);
      start();
      process.removeListener('exit', start);
    },
  };
}

/** Events of different zones do not use up each other's lines. */
function floodKey(event: string, { zone }: LogFields): string {
  return typeof zone === 'string' ? `${event} ${zone}` : event;
}

/** Secrets are blotted out; errors become their message. */
function redact(fields: LogFields): LogFields {
  const clean: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (SECRET.test(name)) clean[name] = '[redacted]';
    else if (value instanceof Error) clean[name] = value.message;
    else if (typeof value === 'object' && value !== null && !Array.isArray(value))
      clean[name] = redact(value as LogFields);
    else if (value !== undefined) clean[name] = value;
  }
  return clean;
}

function openWriter(name: string, fd: number, env: NodeJS.ProcessEnv, small: boolean): Write {
  const sink = openLogSink(fd);
  const json = small ? smallJsonWriter : jsonWriter;
  if (isJournal(fd, env)) return json(name, sink, true);
  return isatty(fd) ? lineWriter(sink, (env.NO_COLOR ?? '') === '') : json(name, sink, false);
}

/** `JOURNAL_STREAM` names the socket of the journal; output that was sent elsewhere is not it (systemd.exec(5)). */
function isJournal(fd: number, { JOURNAL_STREAM }: NodeJS.ProcessEnv): boolean {
  if (!JOURNAL_STREAM) return false;
  try {
    const { dev, ino } = fstatSync(fd);
    return JOURNAL_STREAM === `${dev}:${ino}`;
  } catch {
    return false;
  }
}

function jsonWriter(name: string, sink: LogSink, journal: boolean): Write {
  const { pino } = createRequire(import.meta.url)('pino') as typeof import('pino');
  let prefix = '';
  const logger = pino(
    {
      level: 'trace',
      base: journal ? null : { name, pid: process.pid },
      timestamp: false,
      formatters: { level: (label) => ({ level: label }) },
    },
    { write: (line: string) => sink.write(prefix + line) },
  );
  return (level, wall, event, fields) => {
    prefix = journal ? PRIORITY[level] : '';
    logger[level]({ ...(journal ? {} : { time: new Date(wall).toISOString() }), event, ...fields });
  };
}

function smallJsonWriter(name: string, sink: LogSink, journal: boolean): Write {
  return (level, wall, event, fields) => {
    const about = journal ? {} : { name, pid: process.pid, time: new Date(wall).toISOString() };
    sink.write(`${journal ? PRIORITY[level] : ''}${JSON.stringify({ level, ...about, event, ...fields })}\n`);
  };
}

const COLORS: Readonly<Record<LogLevel, string>> = { trace: '2', debug: '2', info: '32', warn: '33', error: '31' };

function lineWriter(sink: LogSink, colored: boolean): Write {
  const paint = (code: string, text: string) => (colored ? `\x1b[${code}m${text}\x1b[0m` : text);
  return (level, wall, event, fields) => {
    const shown = Object.entries(fields).map(([name, value]) => `${paint('2', `${name}=`)}${showField(value)}`);
    const time = new Date(wall).toTimeString().slice(0, 8);
    sink.write(`${[paint('2', time), paint(COLORS[level], level.padEnd(5)), event, ...shown].join(' ')}\n`);
  };
}

/** One word as it is, anything else quoted; control characters never reach a terminal. */
function showField(value: unknown): string {
  const text = typeof value === 'string' && /^[\x21\x23-\x7e]+$/.test(value) ? value : JSON.stringify(value);
  return (text ?? 'null').replace(/[\x7f-\x9f]/g, '?');
}
