import { write } from './write.mjs';

function start({ bench, folder, port, stale, core }, zone) {
  const config = write(
    folder,
    'named.conf',
    `options {
  listen-on port ${port} { 127.0.0.1; };
  listen-on-v6 { none; };
  directory "${folder}";
  pid-file none;
  session-keyfile none;
  lock-file none;
  managed-keys-directory "${folder}";
  dnssec-validation no;
  minimal-responses no-auth;
  querylog no;
  notify no;
  allow-query { 127.0.0.0/8; };
  tcp-clients 1000;
  empty-zones-enable no;
  ${stale ? 'stale-answer-enable yes; stale-cache-enable yes; stale-answer-client-timeout 0;' : ''}
};
controls { };
logging { category default { null; }; };
${zone}
`,
  );
  return bench.start(this.path, ['-f', '-n', '1', '-c', config], { core });
}

export const bindZone = {
  key: 'bind',
  title: 'BIND, zone file',
  program: 'named',
  version: ['-v'],
  serves: 'zone',
  start(context) {
    const { zone, zoneFile } = context;
    return start.call(this, context, `zone "${zone}" { type primary; file "${zoneFile}"; };`);
  },
};

export const bindCache = {
  key: 'bind-cache',
  title: 'BIND',
  program: 'named',
  version: ['-v'],
  serves: 'cache',
  start(context) {
    const { zone, upstream } = context;
    const forward = `type forward; forward only; forwarders { 127.0.0.1 port ${upstream}; };`;
    return start.call(this, context, `zone "${zone}" { ${forward} };`);
  },
};
