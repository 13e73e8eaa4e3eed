/** Words of a worker's counter array: `new Uint32Array(new SharedArrayBuffer(COUNTER_WORDS * 4))`. */
export const COUNTER_WORDS = 128;
