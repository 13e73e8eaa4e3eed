/** `holdfast demo`: all of it on loopback, without root, shown as it happens. */
import { setTimeout as sleep } from 'node:timers/promises';
import { plain, styleFor } from '../system/terminal.js';
import { guide } from './guide.js';
import { Stage } from './stage.js';
import { runTour } from './tour.js';
import { compare, look, type Mood, type Sight } from './watch.js';

const LOOK_MS = 500;

/** Resolves with the exit code. `once`: the tour by itself; 0 if all held. */
export async function runDemo(options: { readonly once: boolean }): Promise<number> {
  const style = styleFor();
  const print = (text: string) => process.stdout.write(`${text}\n`);
  const stage = new Stage(options.once ? '300ms' : '1s');
  const end = new AbortController();
  let exit = 0;
  const stop = (code: number) => {
    exit = Math.max(exit, code);
    end.abort();
  };
  const onSignal = () => stop(0);
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);
  stage.onDeath = (what) => {
    print(style.bad(`the ${what} has ended:\n${stage.lastWords(what)}`));
    stop(1);
  };
  try {
    print(style.dim('starting backends, resolver and prober ...'));
    await orEnd(stage.setUp(), end.signal);
    if (options.once) {
      const say = (text: string, held?: boolean) => {
        const mark = held === undefined ? style.dim('..') : held ? style.good('ok') : style.bad('NOT SO:');
        print(held === undefined ? `${mark} ${text}` : `   ${mark} ${text}`);
      };
      if (!(await orEnd(runTour(stage, say), end.signal))) stop(1);
    } else {
      print(guide(stage, style));
      await showNews(stage, end.signal, (mood, text) => {
        print(`${style.dim(new Date().toTimeString().slice(0, 8))}  ${style[mood](plain(text))}`);
      });
    }
  } catch (error) {
    if (!end.signal.aborted) {
      print(style.bad((error as Error).message));
      stop(1);
    }
  } finally {
    if (!options.once) print(style.dim('\nstopping everything ...'));
    await stage.tearDown();
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.off(signal, onSignal);
  }
  return exit;
}

async function showNews(stage: Stage, end: AbortSignal, tell: (mood: Mood, text: string) => void): Promise<void> {
  let before: Sight | undefined;
  while (!end.aborted) {
    const now = await look(stage);
    if (end.aborted) return;
    if (before) for (const { mood, text } of await compare(stage, before, now)) tell(mood, text);
    else
      for (const [service, { backends }] of now.answers) tell('good', `${service} is answered: ${backends.join(', ')}`);
    before = now;
    await sleep(LOOK_MS, undefined, { signal: end }).catch(() => {});
  }
}

/** Whatever is under way, the end comes first. */
function orEnd<T>(work: Promise<T>, end: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const ended = () => reject(new Error('ended'));
    if (end.aborted) ended();
    end.addEventListener('abort', ended, { once: true });
    work.then(resolve, reject);
  });
}
