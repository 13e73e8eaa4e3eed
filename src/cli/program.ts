/** The command line as people see it: commands, options, help with examples. Each command is loaded when it runs. */
import { Command, CommanderError, InvalidArgumentError, Option } from 'commander';
import { programVersion } from '../system/version.js';
import { complain, EXIT_FAILED, EXIT_OK, EXIT_USAGE } from './output.js';
import { registerArguments, registerOptions } from './register-options.js';
import { DEFAULT_CONFIG_FILE, defaultConfigFile, TRANSPORTS } from './serve-arguments.js';

/** Parses and runs. Resolves with the exit code. */
export async function runProgram(args: readonly string[]): Promise<number> {
  quietWhenNobodyReads();
  let exit = EXIT_OK;
  const program = build((code) => {
    exit = code;
  });
  try {
    if (args.length === 0) program.help({ error: true });
    await program.parseAsync(args, { from: 'user' });
    return exit;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT_OK : EXIT_USAGE;
    complain(`this should not have happened, please report it: ${(error as Error).stack ?? String(error)}`);
    return EXIT_FAILED;
  }
}

/** `holdfast status | head` ends like any other program. */
function quietWhenNobodyReads(): void {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    process.exit(error.code === 'EPIPE' ? EXIT_OK : EXIT_FAILED);
  });
}

const configOption = () =>
  new Option('-c, --config <file>', `the configuration; without it HOLDFAST_CONFIG, or ${DEFAULT_CONFIG_FILE}`);
const withConfig = <T extends object>(options: T) => ({ config: defaultConfigFile(), ...options });
const jsonOption = () => new Option('--json', 'print the document as JSON');

function build(done: (exit: number) => void): Command {
  const program = new Command('holdfast')
    .description(
      'A nameserver for service discovery that keeps answering when its registry is gone. It answers SRV, A and AAAA ' +
        'from memory, refreshes in the background, and leaves out endpoints that its prober finds dead.',
    )
    .version(programVersion(), '-V, --version', 'print the version')
    .helpCommand(false)
    .showHelpAfterError('(--help tells more)')
    .exitOverride()
    .configureOutput({ outputError: (text, write) => write(`holdfast: ${text.replace(/^error: /, '')}`) })
    .addHelpText(
      'after',
      examples(
        ['holdfast demo', 'see it work, on loopback, without root'],
        ['holdfast check -c holdfast.yaml', 'is this configuration good?'],
        ['holdfast serve -c holdfast.yaml', 'serve it'],
        ['holdfast probe -c holdfast.yaml', 'and probe its endpoints, in a second process'],
        ['holdfast register --name web --port 8080 -- ./server', 'register a service while it runs'],
        ['holdfast query orders.svc.internal', 'ask it'],
        ['holdfast explain orders.svc.internal', 'why is this endpoint out?'],
      ) + '\nExit codes: 0 done, 1 failed, 2 wrong usage or configuration.\n',
    );
  const command = (usage: string, description: string) =>
    program.command(usage).description(description).addOption(configOption());

  command('serve', 'answer DNS questions')
    .option('--last-good', 'when the configuration is bad, serve by the last one that was in force')
    .addOption(
      new Option('--transport <kind>', "how UDP is served, in place of the configuration's word").choices(TRANSPORTS),
    )
    .addHelpText(
      'after',
      '\nSIGHUP reads the configuration again: a bad one is one error, and what runs stays.\nSIGTERM ends it.\n' +
        examples(
          ['holdfast serve -c holdfast.yaml', 'in the foreground, logging to standard output'],
          ['holdfast serve --last-good', 'as a service: starts whatever was done to the file'],
        ),
    )
    .action(async (options) =>
      done(await (await import('./serve.js')).serve({ ...withConfig(options), lastGood: options.lastGood === true })),
    );

  command('probe', 'probe endpoints for the resolver, in a process of its own')
    .addHelpText('after', '\nRuns beside `holdfast serve`, with the same configuration, and waits for it.\n')
    .action(async (options) => done(await (await import('./probe.js')).probe(withConfig(options))));

  registerOptions(command('register [command...]', 'keep a service of this host registered, for as long as it lives'))
    .addHelpText('after', REGISTER_HELP)
    .action(async (words: string[], options) => {
      if (words.length > 0) return done(refuseCommand());
      done(await (await import('./register.js')).register(registerArguments(withConfig(options))));
    });

  program
    .command('demo')
    .description('all of it on loopback, with little backends to kill')
    .option('--once', 'run a tour by itself: a backend dies, the registry goes, all comes back; exit 0 if it held')
    .addHelpText('after', '\nNeeds no root and leaves nothing behind. Ctrl-C ends it.\n')
    .action(async (options) => done(await (await import('../demo/demo.js')).runDemo({ once: options.once === true })));

  command('check', 'check a configuration and its registry files')
    .addOption(jsonOption())
    .option('--options', 'print every option of the configuration with its default, and check nothing')
    .addHelpText(
      'after',
      '\nExit code 0: good. 1: good, but some entries are left out. 2: the configuration or a\nregistry file is bad.\n',
    )
    .action(async ({ options: reference, ...options }) => {
      if (reference !== true) done(await (await import('./check.js')).check(withConfig(options)));
      else process.stdout.write((await import('../config/reference.js')).configReference());
    });

  command('status', 'how the resolver stands, and what is frozen since when')
    .addOption(jsonOption())
    .addHelpText('after', '\nExit code 0: all is well. 1: degraded. 3: not running.\n')
    .action(async (options) => done(await (await import('./status.js')).status(withConfig(options))));

  command('explain <name> [type]', 'why each endpoint of a name is in or out of the answer')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        ['holdfast explain orders.svc.internal', 'addresses'],
        ['holdfast explain _http._tcp.orders.svc.internal SRV', 'one port'],
      ),
    )
    .action(async (name, type, options) =>
      done(await (await import('./explain.js')).explain(name, type, withConfig(options))),
    );

  command('query <name> [type]', 'ask the resolver, or another name server, a DNS question')
    .addOption(
      new Option('-s, --server <address>', "an IP address; without it the configuration's first listen address"),
    )
    .addOption(new Option('-p, --port <number>', "53 with --server, else the configuration's").argParser(port))
    .option('--tcp', 'over TCP')
    .option('--short', 'only the data of the answer')
    .addOption(new Option('--timeout <ms>', 'how long to wait').argParser(milliseconds).default(3000))
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nThe type is A, or SRV for a name that begins with an underscore. Exit code 0: NOERROR.\n1: another status, or no reply.\n' +
        examples(
          ['holdfast query orders.svc.internal', 'addresses'],
          ['holdfast query _orders._tcp.svc.internal', 'addresses and ports'],
          ['holdfast query orders.svc.internal SRV --tcp --json', 'for a script'],
          ['holdfast query example.com --server 192.0.2.53', 'another server'],
        ),
    )
    .action(async (name, type, { timeout, ...options }) =>
      done(await (await import('./query.js')).query(name, type, { ...withConfig(options), timeoutMs: timeout })),
    );

  command('accept <name>', "let go what the guard holds of a service: it is gone on purpose ('*' for the whole zone)")
    .option('--zone <zone>', 'when several zones have the name')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      examples(
        ['holdfast accept orders', 'orders was scaled in'],
        ["holdfast accept '*' --zone svc.internal", 'the zone was emptied on purpose'],
      ),
    )
    .action(async (name, options) => done(await (await import('./accept.js')).accept(name, withConfig(options))));

  command('drain <name>', 'leave endpoints out of the answers of this host: a service, an id, an address, ADDRESS:PORT')
    .option('--undo', 'answer them again')
    .option('--zone <zone>', 'when several zones have the name')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nIt lasts until --undo, over restarts, or until the registry drops the endpoint.\n' +
        examples(
          ['holdfast drain orders-2', 'one endpoint'],
          ['holdfast drain 10.0.0.7', 'all that runs on a host'],
          ['holdfast drain orders-2 --undo', 'and back'],
        ),
    )
    .action(async (name, options) => done(await (await import('./drain.js')).drain(name, withConfig(options))));

  const host = (usage: string, description: string) =>
    program
      .command(usage)
      .description(description)
      .addOption(
        new Option('-c, --config <file>', `the configuration; without it ${DEFAULT_CONFIG_FILE} below the root`),
      )
      .option('--root <folder>', 'a folder in place of the host, in which nothing is started', '/')
      .option('-y, --yes', 'do it; without it, only what would be done is shown');
  host('install', 'make this the nameserver of the host: units of systemd, resolv.conf or systemd-resolved')
    .addOption(
      new Option('--mode <mode>', 'the host asks this server alone, or systemd-resolved asks it for the zones').choices(
        ['resolv-conf', 'resolved'],
      ),
    )
    .addHelpText(
      'after',
      '\nWithout --mode: resolv-conf when the configuration has `forward`, else resolved.\n' +
        examples(['holdfast install', 'what would be done?'], ['holdfast install --yes', 'do it']),
    )
    .action(async ({ yes, ...options }) =>
      done(await (await import('./install.js')).install({ ...options, yes: yes === true })),
    );
  host('uninstall', 'put back what was there before `holdfast install`')
    .option('--force', 'also what was changed since')
    .action(async ({ yes, force, ...options }) =>
      done(await (await import('./install.js')).uninstall({ ...options, yes: yes === true, force: force === true })),
    );

  return program;
}

const REGISTER_HELP = `
Without options: all services of the configuration's directory (register.path), read again when it changes.
With options: one service. With a command after --, that command is started at once and is this process from then on
(its number, signals and exit code), and the registrar runs apart from it: whatever becomes of the registrar or of the
registry, the command runs. When it ends, however it does, the service is removed.

Each third of --ttl what is wanted is compared with what the registry holds, and mended. SIGTERM to the registrar
removes within 3 s, after --drain; what cannot be removed is left to its TTL. How it stands: \`holdfast status\`.
${examples(
  ['holdfast register --name web --port 8080 -- ./server --fast', 'a service and its registration'],
  ['holdfast register --name web --port 8080 --check http:/healthz --when-healthy -- ./server', 'once it is well'],
  ['holdfast register --name web --port 8080 --pid 4711', 'a service that runs already'],
  ['holdfast register -c holdfast.yaml', 'all of conf/register.d, as a service of its own'],
)}`;

/** Node cannot become another program. */
function refuseCommand(): number {
  complain('a command after -- needs the launcher bin/holdfast in place of bin/holdfast.js: it becomes the command');
  return EXIT_USAGE;
}

function examples(...lines: readonly (readonly [string, string])[]): string {
  const width = Math.max(...lines.map(([line]) => line.length));
  return `\nExamples:\n${lines.map(([line, what]) => `  ${line.padEnd(width)}  ${what}\n`).join('')}`;
}

function port(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1 || number > 65535) throw new InvalidArgumentError('Expected 1 to 65535.');
  return number;
}

function milliseconds(text: string): number {
  const number = Number(text);
  if (!Number.isInteger(number) || number < 1 || number > 600_000) {
    throw new InvalidArgumentError('Expected milliseconds, 1 to 600000.');
  }
  return number;
}
