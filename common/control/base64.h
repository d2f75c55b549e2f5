#pragma once

// Base64 (RFC 4648, with padding): how bytes travel inside our JSON lines. Used by the codecs.

#include <optional>
#include <string>
#include <string_view>

namespace ringmaster::control {

std::string EncodeBase64(std::string_view bytes);

// The bytes, or nothing when the text is not exactly what EncodeBase64 writes for some bytes.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace ringmaster::control
