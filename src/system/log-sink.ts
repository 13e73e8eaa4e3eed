/** Where log lines go: a descriptor that may be slow, full or gone, and must never hold the program up or end it. */
import { fstatSync, writeSync } from 'node:fs';
import { Socket } from 'node:net';
import { isatty } from 'node:tty';

export interface LogSink {
  write(line: string): void;
  /** Lines lost so far because nobody took them. */
  readonly lost: () => number;
}

/** A reader that has stopped reading costs at most so much memory. */
const MAX_WAITING_BYTES = 1024 * 1024;

/** Files and terminals are written at once; pipes and sockets without waiting, and beyond a bound lines are dropped. */
export function openLogSink(fd: number): LogSink {
  let lost = 0;
  const stream = isPipe(fd) ? pipeTo(fd) : undefined;
  return {
    write(line) {
      if (stream) {
        if (stream.destroyed || stream.writableLength > MAX_WAITING_BYTES) lost++;
        else stream.write(line);
        return;
      }
      try {
        writeSync(fd, line);
      } catch {
        lost++;
      }
    },
    lost: () => lost,
  };
}

function isPipe(fd: number): boolean {
  try {
    if (isatty(fd)) return false;
    const stat = fstatSync(fd);
    return stat.isFIFO() || stat.isSocket();
  } catch {
    return false;
  }
}

function pipeTo(fd: number): Socket | undefined {
  try {
    const stream = new Socket({ fd, readable: false, writable: true });
    stream.on('error', () => stream.destroy());
    stream.unref();
    return stream;
  } catch {
    // A datagram socket or the like: written at once instead.
    return undefined;
  }
}
