#pragma once

// Parses JSON text and integers from untrusted peers. Never throws. Use fields.h to read and write
// whole structs.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"

namespace ringmaster {

using Json = nlohmann::json;

// Returns the parsed value, or kInvalid.
Result<Json> ParseJson(std::string_view text);
Result<Json> ParseJsonObject(std::string_view text);

// Returns compact text. Replaces bytes that are not UTF-8.
std::string DumpJson(const Json& json);

// Returns an integer from `least` to `most`; nullopt for anything else, such as 1.0 or "1".
std::optional<int64_t> IntegerIn(const Json& json, int64_t least, int64_t most);

}  // namespace ringmaster
