/** What both threads of torn.mjs know. */
export const NAMES = 64;
export const MOST_ROWS = 20;
