/** The options of `holdfast register`, and the registration that they make: the same keys as a file of one has. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { WatchedProcess } from '../registrar/watched-process.js';
import type { RegisterArguments } from './register.js';

const CHECK_FORMS = 'tcp, http:/PATH, https:/PATH, tls, grpc, grpc:SERVICE, "exec:PROGRAM ARGS", or a map as in JSON';

export function registerOptions(command: Command): Command {
  return command
    .option('--name <service>', 'the service')
    .option('--port <number>', 'its port on this host')
    .option('--address <address>', 'its address as others reach it; without it, the first of this host')
    .option('--zone <zone>', 'the zone, where there are several')
    .option('--id <id>', 'what tells it from other instances; without it, NAME-HOST-PORT')
    .option('--tag <tag>', 'a tag; may be given again', (tag: string, tags: string[] = []) => [...tags, tag])
    .option('--weight <number>', 'its share within the priority')
    .option('--priority <number>', 'lower is better')
    .option('--protocol <protocol>', 'tcp (the default) or udp')
    .option('--port-name <name>', 'the name of the port')
    .option('--ttl <duration>', 'how long the registry keeps it without a sign of life (30s)')
    .option('--check <check>', `a check on this host: ${CHECK_FORMS}`)
    .option('--when-healthy', 'registered only while the check passes (tcp without --check)')
    .option('--drain <duration>', 'when stopped: marked as draining so long, then removed')
    .option('--log <file>', 'the log; otherwise standard output, beside a command a file in runDir')
    .addOption(
      new Option('--pid <pid>', 'watch this process, and end when it is gone').argParser((text): WatchedProcess => {
        const [, pid, start] = /^(\d{1,10})(?::(\d{1,20}))?$/.exec(text) ?? [];
        if (pid === undefined) throw new InvalidArgumentError('Expected the number of a process.');
        return { pid: Number(pid), ...(start === undefined ? {} : { start }) };
      }),
    )
    .addOption(new Option('--detached').hideHelp());
}

interface Given {
  readonly config: string;
  readonly pid?: WatchedProcess;
  readonly log?: string;
  readonly detached?: boolean;
  readonly check?: string;
  readonly tag?: readonly string[];
  readonly [key: string]: unknown;
}

const NUMBERS = ['port', 'weight', 'priority'];

export function registerArguments({ config, pid, log, detached, ...given }: Given): RegisterArguments {
  const options = Object.fromEntries(
    Object.entries(given).map(([key, value]) => {
      if (key === 'tag') return ['tags', value];
      if (key === 'check') return ['check', checkOf(String(value))];
      return [key, NUMBERS.includes(key) && /^\d+$/.test(String(value)) ? Number(value) : value];
    }),
  );
  return {
    config,
    ...(Object.keys(options).length === 0 ? {} : { options }),
    ...(pid === undefined ? {} : { process: pid }),
    ...(log === undefined ? {} : { log }),
    detached: detached === true,
  };
}

/** What is none of the forms is left to the schema to refuse. */
function checkOf(text: string): unknown {
  if (text.startsWith('{')) {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
  const [type = '', ...rest] = text.split(':');
  const value = rest.join(':');
  if (rest.length === 0) return { type };
  switch (type) {
    case 'http':
    case 'https':
      return { type, path: value };
    case 'grpc':
      return { type, grpcService: value };
    case 'exec':
      return { type, command: value.split(/ +/).filter((word) => word !== '') };
    default:
      return { type: text };
  }
}
