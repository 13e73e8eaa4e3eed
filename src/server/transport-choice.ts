/** Which transport a start uses for UDP. */
import { join } from 'node:path';
import { notLinux } from '../system/libc.js';
import { NativeTrial } from '../system/native-trial.js';
import type { AnswerSettings, ServerLog } from './settings.js';

export class TransportChoice {
  readonly wanted: 'batched' | 'portable';
  /** Why it is the portable one. */
  readonly reason: string | undefined;
  #trial: NativeTrial | undefined;

  constructor(settings: Pick<AnswerSettings, 'transport' | 'stateDir'>, log: ServerLog) {
    const { transport, stateDir } = settings;
    if (transport === 'portable') this.reason = 'it is asked for: transport: portable';
    else if (transport === 'auto' && process.platform !== 'linux') this.reason = notLinux();
    else if (transport === 'auto' && stateDir !== undefined) {
      this.#trial = new NativeTrial(join(stateDir, 'udp-batched.json'), 'the batched transport');
      this.reason = this.#trial.avoided;
      if (this.reason !== undefined)
        log('warn', 'transport-avoided', { message: `${this.reason}: using the portable one` });
    }
    this.wanted = this.reason === undefined ? 'batched' : 'portable';
  }

  /** The process ends as it should, or the batched transport is not used after all. */
  clear(): void {
    this.#trial?.clear();
  }
}
