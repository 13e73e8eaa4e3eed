/** An Extended DNS Error as readers copy it: the end of an OPT record, bare and with its text (RFC 8914 s.2). */
import { OPTION_EDE } from '../dns/constants.js';
import type { Ede } from './contract.js';
import { EDE_BARE_BYTES, EDE_BARE_LENGTH, EDE_FULL_BYTES } from './shared.js';

/** R26. */
const MAX_TEXT_BYTES = 60;

/** RDLENGTH and the option, in network order. */
export function edeOption(code: number, text: Uint8Array): Uint8Array {
  const option = new Uint8Array(EDE_BARE_LENGTH + text.length);
  const view = new DataView(option.buffer);
  view.setUint16(0, 6 + text.length);
  view.setUint16(2, OPTION_EDE);
  view.setUint16(4, 2 + text.length);
  view.setUint16(6, code);
  option.set(text, EDE_BARE_LENGTH);
  return option;
}

/** The block, for the layout see shared.ts. Text over 60 bytes is cut at a whole character. */
export function edeBlock(ede: Ede): Uint8Array {
  const full = edeOption(ede.code, cutUtf8(ede.text ?? '', MAX_TEXT_BYTES));
  const block = new Uint8Array((EDE_FULL_BYTES + full.length + 7) & ~7);
  new Uint32Array(block.buffer)[0] = block.length;
  new Uint16Array(block.buffer).set([full.length, ede.code], 2);
  block.set(edeOption(ede.code, new Uint8Array(0)), EDE_BARE_BYTES);
  block.set(full, EDE_FULL_BYTES);
  return block;
}

function cutUtf8(text: string, limit: number): Uint8Array {
  const out = new Uint8Array(limit);
  return out.subarray(0, new TextEncoder().encodeInto(text, out).written);
}
