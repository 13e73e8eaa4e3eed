import { AnswerServer, type AnswerServerOptions, type ServerLog } from './answer-server.js';

/** Answer threads that load while the rest of the program does: their start is most of the time to the first answer. */
export interface EarlyThreads {
  readonly server: AnswerServer;
  /** Where the server's lines go, from now on. Before, there are none. */
  logTo(log: ServerLog): void;
}

export function startThreads(transport: AnswerServerOptions['transport']): EarlyThreads {
  let log: ServerLog | undefined;
  const server = new AnswerServer({ log: (...line) => log?.(...line), ...(transport && { transport }) });
  return {
    server,
    logTo(to) {
      log = to;
    },
  };
}
