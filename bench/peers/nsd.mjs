import { write } from './write.mjs';

export const nsd = {
  key: 'nsd',
  title: 'NSD',
  program: 'nsd',
  version: ['-v'],
  serves: 'zone',
  start({ bench, folder, port, zone, zoneFile, core }) {
    const config = write(
      folder,
      'nsd.conf',
      `server:
  ip-address: 127.0.0.1@${port}
  server-count: 1
  do-ip6: no
  username: ""
  zonesdir: "${folder}"
  database: ""
  pidfile: ""
  xfrdfile: "${folder}/xfrd"
  xfrdir: "${folder}"
  zonelistfile: "${folder}/zones"
  logfile: "${folder}/log"
  verbosity: 0
  minimal-responses: no
  rrl-ratelimit: 0
  tcp-count: 100
  receive-buffer-size: 4194304
  send-buffer-size: 4194304
remote-control:
  control-enable: no
zone:
  name: "${zone}"
  zonefile: "${zoneFile}"
`,
    );
    return bench.start(this.path, ['-d', '-c', config], { core });
  },
};
