import { write } from './write.mjs';

export const knot = {
  key: 'knot',
  title: 'Knot DNS',
  program: 'knotd',
  version: ['--version'],
  serves: 'zone',
  start({ bench, folder, port, zone, zoneFile, core }) {
    const config = write(
      folder,
      'knot.conf',
      `server:
    rundir: "${folder}"
    listen: 127.0.0.1@${port}
    udp-workers: 1
    tcp-workers: 1
    background-workers: 1
database:
    storage: "${folder}"
template:
  - id: default
    zonefile-sync: -1
    journal-content: none
zone:
  - domain: ${zone}
    file: "${zoneFile}"
`,
    );
    return bench.start(this.path, ['-c', config], { core });
  },
};
