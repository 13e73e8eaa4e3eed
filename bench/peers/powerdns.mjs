import { write } from './write.mjs';

export const powerdns = {
  key: 'powerdns',
  title: 'PowerDNS Recursor',
  program: 'pdns_recursor',
  version: ['--version'],
  serves: 'cache',
  start({ bench, folder, port, upstream, zone, stale, core }) {
    const additionals = 'addAllowedAdditionalQType(pdns.SRV, {pdns.A}, {mode=pdns.AdditionalMode.ResolveImmediately})';
    const lua = write(folder, 'recursor.lua', `${additionals}\n`);
    write(
      folder,
      'recursor.conf',
      `local-address=127.0.0.1
local-port=${port}
allow-from=127.0.0.0/8
forward-zones=${zone}=127.0.0.1:${upstream}
lua-config-file=${lua}
threads=1
pdns-distributes-queries=no
dnssec=off
daemon=no
socket-dir=${folder}
write-pid=no
quiet=yes
loglevel=0
disable-syslog=yes
security-poll-suffix=
packetcache-ttl=86400
packetcache-servfail-ttl=0
max-negative-ttl=86400
max-cache-entries=2000000
max-packetcache-entries=2000000
max-concurrent-requests-per-tcp-connection=1000
export-etc-hosts=no
${stale ? 'serve-stale-extensions=100' : ''}
`,
    );
    return bench.start(this.path, [`--config-dir=${folder}`], { core });
  },
};
