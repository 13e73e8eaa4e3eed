import t from 'tap';
import { largeSharedMemory } from '../src/system/huge-pages.js';

t.test('memory is shared, zero and as large as was asked, whichever pages the system gives', async (t) => {
  for (const bytes of [8, 4 * 1024 * 1024 - 8, 4 * 1024 * 1024, 16 * 1024 * 1024 + 8]) {
    const memory = largeSharedMemory(bytes);
    t.ok(memory instanceof SharedArrayBuffer);
    t.equal(memory.byteLength, bytes);
    const words = new Float64Array(memory);
    t.ok(words.every((word) => word === 0));
    words.fill(1);
    t.ok(words.every((word) => word === 1));
  }
});
