/** Endpoints of tests of the client. */
import type { Endpoint } from '../src/client/endpoint.js';

export const endpoint = (port: number, priority = 0, weight = 1): Endpoint => ({
  address: '10.0.0.1',
  port,
  priority,
  weight,
});
