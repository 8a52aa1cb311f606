// CRC-32C (Castagnoli; RFC 3720, appendix B.4), four bytes a step ("slicing by 4").

const POLYNOMIAL = 0x82f63b78; // reflected

const TABLES = tables();

function tables(): [Uint32Array, Uint32Array, Uint32Array, Uint32Array] {
  const [first, ...rest] = Array.from({ length: 4 }, () => new Uint32Array(256)) as [
    Uint32Array,
    Uint32Array,
    Uint32Array,
    Uint32Array,
  ];
  for (let byte = 0; byte < 256; byte++) {
    let crc = byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
    first[byte] = crc;
  }
  let before = first;
  for (const table of rest) {
    for (let byte = 0; byte < 256; byte++) {
      const crc = before[byte]!;
      table[byte] = (crc >>> 8) ^ first[crc & 0xff]!;
    }
    before = table;
  }
  return [first, ...rest];
}

/** The checksum of bytes: of "123456789" it is 0xE3069283. */
export function crc32c(data: Uint8Array): number {
  const [t0, t1, t2, t3] = TABLES;
  let crc = 0xffffffff;
  let at = 0;
  for (const end = data.length - 3; at < end; at += 4) {
    crc ^= data[at]! | (data[at + 1]! << 8) | (data[at + 2]! << 16) | (data[at + 3]! << 24);
    crc = t3[crc & 0xff]! ^ t2[(crc >>> 8) & 0xff]! ^ t1[(crc >>> 16) & 0xff]! ^ t0[crc >>> 24]!;
  }
  for (; at < data.length; at++) crc = (crc >>> 8) ^ t0[(crc ^ data[at]!) & 0xff]!;
  return (crc ^ 0xffffffff) >>> 0;
}
