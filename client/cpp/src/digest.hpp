// Hashes of blocks, and ids of sessions.
#pragma once

#include <cstddef>
#include <string>

namespace backhaul::detail {

// The 32 bytes of SHA-256.
std::string sha256(const std::string& data);

// Bytes that nobody can guess.
std::string random_bytes(std::size_t count);

// In lower case.
std::string hexadecimal(const std::string& bytes);

}  // namespace backhaul::detail
