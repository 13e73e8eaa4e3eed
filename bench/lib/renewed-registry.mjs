/** A large registry file that is renewed again and again, each time with changes. */
import { linkSync, renameSync, statSync, utimesSync } from 'node:fs';
import { join } from 'node:path';

/** A file that becomes one of two contents by turns, by rename. */
export class RenewedRegistry {
  #contents;
  #folder;
  #turn = 0;
  #task;
  #on = false;
  renewals = 0;
  everyMs = 0;

  /** One service in `changed` differs between the two. */
  constructor(data, changed) {
    const tags = [
      'production',
      'eu-west',
      'release-2031-05-04',
      'owner-payments',
      'image-9f86d081884c7d659a2feaa0c55ad015',
    ];
    const more = (weight) => (s) => ({ tags, zone: `az-${s % 3}`, weight: s % changed === 0 ? weight : 10 });
    this.#contents = [10, 20].map((weight) =>
      data.registryFile({ more: more(weight), file: `content-${weight}.json` }),
    );
    this.#folder = data.folder;
    this.path = join(data.folder, 'services.json');
    this.bytes = statSync(this.#contents[0]).size;
    this.renew();
  }

  renew() {
    const next = join(this.#folder, 'next.json');
    const content = this.#contents[this.#turn++ % 2];
    const now = new Date();
    utimesSync(content, now, now);
    linkSync(content, next);
    renameSync(next, this.path);
    this.renewals++;
  }

  /** Renews it as soon as `seen` tells that the last one was taken in. */
  start(seen) {
    this.#on = true;
    const began = performance.now();
    const before = this.renewals;
    this.#task = (async () => {
      while (this.#on) {
        this.renew();
        await seen(this.#turn);
      }
      this.everyMs = (performance.now() - began) / (this.renewals - before);
    })();
  }

  async stop() {
    this.#on = false;
    await this.#task;
  }

  /** Weight in the answers of what changes, for the present content. */
  get weight() {
    return this.#turn % 2 === 1 ? 10 : 20;
  }
}
