#pragma once

// Base64 (RFC 4648, with padding) for bytes in JSON and YAML. The codecs of the control protocol
// and the readers of Secrets and kubeconfig files use it.

#include <optional>
#include <string>
#include <string_view>

namespace ringmaster {

std::string EncodeBase64(std::string_view bytes);

// Returns the decoded bytes; nullopt if `text` is not exactly what EncodeBase64 would return.
std::optional<std::string> DecodeBase64(std::string_view text);

}  // namespace ringmaster
