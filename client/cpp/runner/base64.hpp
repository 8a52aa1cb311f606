// Bytes as text.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

// RFC 4648, with padding.
std::string to_base64(const std::vector<std::byte>& bytes);

// Throws std::invalid_argument.
std::vector<std::byte> from_base64(const std::string& text);
