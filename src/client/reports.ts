/** Tells the host's resolver of connections that failed (R20), if it is there. Nothing waits for that, nothing fails by it. */
import { request } from 'node:http';
import { dirname, join } from 'node:path';
import { defaultPlaces } from '../config/places.js';
import type { Ms, WallMs } from '../system/clock.js';
import { foreignFolder } from '../system/own-folder.js';
import type { Failure } from './errors.js';

interface Report {
  readonly service: string;
  readonly address: string;
  readonly port: number;
  readonly failure: Failure;
  readonly at?: WallMs;
}

/** What comes in so short a time goes together. */
const GATHER_MS: Ms = 20;
/** One endpoint is not reported more often. */
const EVERY_MS: Ms = 1_000;
/** What `POST /v1/reports` takes at once. */
const MAX_REPORTS = 50;
const MAX_WAITING = 1_000;
const TIMEOUT_MS: Ms = 1_000;
/** After a failure the socket is left alone for a while. */
const PAUSE_MS: Ms = 5_000;

export class ReportSender {
  readonly #path: string;
  readonly #waiting: Report[] = [];
  readonly #reportedAt = new Map<string, Ms>();
  #timer: NodeJS.Timeout | undefined;
  #sending = false;
  #pausedUntil = Number.NEGATIVE_INFINITY;

  /** `path`: of the socket; by default where a resolver of this host has it. */
  constructor(path: string | undefined) {
    this.#path = path ?? join(defaultPlaces().runDir, 'public.sock');
  }

  report(report: Report): void {
    const now = performance.now();
    const key = `${report.service} ${report.address} ${report.port} ${report.failure}`;
    if (now < this.#pausedUntil || now - (this.#reportedAt.get(key) ?? Number.NEGATIVE_INFINITY) < EVERY_MS) return;
    if (this.#reportedAt.size >= MAX_WAITING) this.#reportedAt.clear();
    this.#reportedAt.set(key, now);
    if (this.#waiting.length < MAX_WAITING) this.#waiting.push({ ...report, at: Date.now() });
    this.#timer ??= setTimeout(() => void this.#send(), GATHER_MS).unref();
  }

  /** What waits is sent at once; the process does not wait for it. */
  close(): void {
    if (this.#waiting.length > 0) void this.#send();
  }

  async #send(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#sending) return;
    this.#sending = true;
    while (this.#waiting.length > 0) {
      const reports = this.#waiting.splice(0, MAX_REPORTS).map((report) => ({ ...report, protocol: 'tcp' }));
      if (await this.#post(JSON.stringify({ reports }))) continue;
      this.#waiting.length = 0;
      this.#pausedUntil = performance.now() + PAUSE_MS;
    }
    this.#sending = false;
  }

  /** Whether it was taken. */
  async #post(body: string): Promise<boolean> {
    if ((await foreignFolder(dirname(this.#path))) !== undefined) return false;
    return new Promise((resolve) => {
      const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
      const sent = request({ socketPath: this.#path, path: '/v1/reports', method: 'POST', headers, agent: false });
      const end = (taken: boolean): void => {
        clearTimeout(timer);
        sent.destroy();
        resolve(taken);
      };
      const timer = setTimeout(() => end(false), TIMEOUT_MS).unref();
      sent.on('socket', (socket) => socket.unref());
      sent.on('response', (response) => end((response.statusCode ?? 500) < 300));
      sent.on('error', () => end(false));
      sent.end(body);
    });
  }
}
