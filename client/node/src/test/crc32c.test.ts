import assert from "node:assert/strict";
import { test } from "node:test";

import { crc32c } from "../crc32c";

test("the checksums of RFC 3720, B.4", () => {
  assert.equal(crc32c(Buffer.from("123456789")), 0xe3069283);
  assert.equal(crc32c(new Uint8Array(32)), 0x8a9136aa);
  assert.equal(crc32c(new Uint8Array(32).fill(0xff)), 0x62a8ab43);
  assert.equal(crc32c(Uint8Array.from({ length: 32 }, (_, at) => at)), 0x46dd794e);
  assert.equal(crc32c(new Uint8Array()), 0);
});

test("lengths that are no multiple of the step", () => {
  // From the definition, bit by bit.
  const slowly = (data: Uint8Array) => {
    let crc = 0xffffffff;
    for (const byte of data) {
      crc ^= byte;
      for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return (crc ^ 0xffffffff) >>> 0;
  };
  const data = Uint8Array.from({ length: 40 }, (_, at) => (at * 151 + 7) % 256);
  for (let start = 0; start < 4; start++) {
    for (let end = start; end <= data.length; end++) {
      const part = data.subarray(start, end);
      assert.equal(crc32c(part), slowly(part), `${start}:${end}`);
    }
  }
});
