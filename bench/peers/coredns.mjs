import { write } from './write.mjs';

export const coredns = {
  key: 'coredns',
  title: 'CoreDNS',
  program: 'coredns',
  version: ['-version'],
  serves: 'zone',
  start({ bench, folder, port, zone, zoneFile, core }) {
    const config = write(
      folder,
      'Corefile',
      `${zone}:${port} {
  bind 127.0.0.1
  file ${zoneFile}
}
`,
    );
    return bench.start(this.path, ['-conf', config], { core, env: { GOMAXPROCS: '1' } });
  },
};
