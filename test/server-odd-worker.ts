/** UDP threads with something wrong or strange, for server-faults.test.ts: `odd` says what, `real` is the thread's own file. */
import Module from 'node:module';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { workerData } from 'node:worker_threads';
import { Query } from '../src/dns/query.js';
import { Responder } from '../src/server/respond.js';

const { odd, real } = workerData as { readonly odd: string; readonly real: string };
const EINTR = 4;
const EAGAIN = 11;
const ENOSYS = 38;

type Load = (request: string, ...rest: unknown[]) => unknown;
const loader = Module as unknown as { _load: Load };
const load = loader._load;

/** koffi is not installed. */
function withoutKoffi(): void {
  loader._load = (request, ...rest) => {
    if (request === 'koffi') throw new Error("Cannot find module 'koffi'");
    return load(request, ...rest);
  };
}

type Call = (...args: unknown[]) => number;

/** Puts `odd` in the place of a system call. It gets the real one, and sets what errno says until the next call. */
function replaceCall(
  name: string,
  odd: (call: Call, args: unknown[], setErrno: (errno: number) => void) => number,
): void {
  loader._load = (request, ...rest) => {
    const loaded = load(request, ...rest);
    if (request !== 'koffi') return loaded;
    const koffi = loaded as typeof import('koffi');
    let errno: number | undefined;
    const wrap = (lib: ReturnType<typeof koffi.load>) => ({
      func: (prototype: string) => {
        const call = lib.func(prototype) as unknown as Call;
        if (!prototype.includes(name)) return call;
        return (...args: unknown[]) => {
          errno = undefined;
          return odd(call, args, (value) => {
            errno = value;
          });
        };
      },
    });
    return {
      load: (path: string | null) => wrap(koffi.load(path)),
      address: koffi.address,
      errno: () => errno ?? koffi.errno(),
    };
  };
}

/** recvmmsg stops working after it has been called `calls` times. */
function failingReceive(calls: number): void {
  let left = calls;
  replaceCall('recvmmsg', (call, args, setErrno) => {
    if (left-- > 0) return call(...args);
    setErrno(ENOSYS);
    return -1;
  });
}

/** sendmmsg is interrupted, would block, sends one message of many, and works, in turn. */
function stutteringSend(): void {
  let turn = 0;
  replaceCall('sendmmsg', (call, [fd, headers, count, flags], setErrno) => {
    const step = turn++ % 4;
    if (step === 3) return call(fd, headers, count, flags);
    if (step === 2) return call(fd, headers, 1, flags);
    setErrno(step === 0 ? EINTR : EAGAIN);
    return -1;
  });
}

/** Everything that nobody holds is collected, over and over, while queries come. */
function collectAllTheTime(every: number): void {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc') as () => void;
  const endBatch = Responder.prototype.endBatch;
  let batches = 0;
  Responder.prototype.endBatch = function (this: Responder) {
    endBatch.call(this);
    if (++batches % every === 0) gc();
  };
}

/** The responder throws on queries for the name `poison`. */
function poisoned(): void {
  const parse = Query.prototype.parse;
  Query.prototype.parse = function (this: Query, query, length) {
    if (query[12] === 6 && Buffer.from(query.subarray(13, 19)).toString() === 'poison') throw new Error('poisoned');
    return parse.call(this, query, length);
  };
}

/** The thread throws where nothing catches it, when it has answered a query for the name `die`. */
function mortal(): void {
  const { parse } = Query.prototype;
  const { endBatch } = Responder.prototype;
  let last = false;
  Query.prototype.parse = function (this: Query, query, length) {
    last ||= query[12] === 3 && Buffer.from(query.subarray(13, 16)).toString() === 'die';
    return parse.call(this, query, length);
  };
  Responder.prototype.endBatch = function (this: Responder) {
    endBatch.call(this);
    if (last) throw new Error('mortal');
  };
}

/** The responder never returns from a query for the name `hang`. */
function hanging(): void {
  const parse = Query.prototype.parse;
  Query.prototype.parse = function (this: Query, query, length) {
    if (query[12] === 4 && Buffer.from(query.subarray(13, 17)).toString() === 'hang')
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 30_000);
    return parse.call(this, query, length);
  };
}

/** The thread dies as soon as it is loaded. */
function stillborn(): void {
  throw new Error('stillborn');
}

const ODDITIES: Record<string, () => void> = {
  'no koffi': withoutKoffi,
  'receive fails': () => failingReceive(3),
  'stuttering send': stutteringSend,
  collecting: () => collectAllTheTime(100),
  poisoned,
  mortal,
  hanging,
  stillborn,
};
ODDITIES[odd]!();
await import(real);
