/** `registry` and `registries`, one kind an entry. */
import { choice, list, variant } from '../options.js';
import { duration, label, listenAddress, path, text, url, zoneName } from './values.js';

export const registryOptions = {
  file: {
    path: path(
      'A file, or a directory of `*.yaml`, `*.yml` and `*.json`. A relative path starts from the folder of the configuration.',
      { required: true },
    ),
  },
  etcd: {
    endpoints: list(url('A member.', {}), '["http://127.0.0.1:2379"]', 'Addresses of the members.', {
      default: ['http://127.0.0.1:2379'],
      min: 1,
    }),
    layout: choice(['skydns'], 'How services lie in the keys.', { default: 'skydns' }),
    prefix: text('a key such as /skydns', 'Where they begin.', { default: '/skydns' }),
  },
  consul: {
    address: url('The agent or server.', { default: 'http://127.0.0.1:8500' }),
    tokenFile: path('A file with the token.', {}),
    mirror: choice(['all'], 'Which services are followed.', { default: 'all' }),
  },
  dns: {
    servers: list(listenAddress('A server.', {}), '["192.0.2.1:53"]', 'Name servers, asked in order.', {
      required: true,
      min: 1,
    }),
    transfer: choice(['axfr'], 'Takes the zone whole.', {}),
    names: list(zoneName('A name.', {}), '[orders.example]', 'Or these names one by one.', {}),
  },
  http: {
    url: url('Answers with a list of targets, in the form of Prometheus HTTP service discovery.', { required: true }),
    interval: duration('Time between two reads.', { default: '30s', min: '1s' }),
    serviceLabel: label('The label of a target that names its service.', { default: 'job' }),
  },
} as const;

/** A checked registry section: `type`, and the options of that kind. */
export interface RegistryValues {
  readonly type: keyof typeof registryOptions;
  readonly path?: string;
}

export const registryOption = variant<RegistryValues>(
  registryOptions,
  'Where the services of the zone come from.',
  '{ type: file, path: services.yaml }',
);
