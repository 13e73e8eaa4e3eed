/** Registries in a network that swallows every packet, or goes and comes: see cut-off.ts. */
import { enterOwnNetwork } from './own-network.js';

const reason = enterOwnNetwork(import.meta.url);
const { cutOff } = await import('./cut-off.js');
await cutOff(reason);
