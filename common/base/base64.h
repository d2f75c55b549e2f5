#pragma once

// Base64 (RFC 4648, with padding) for bytes in JSON and YAML. Used by the codecs of the control
// protocol and to read Secrets and kubeconfig files.

#include <optional>
#include <string>
#include <string_view>

namespace ringmaster {

std::string EncodeBase64(std::string_view bytes);

// Decodes `text`. Returns nullopt if EncodeBase64 would not write exactly this text.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace ringmaster
