#pragma once

// Forms of fields (fields.h) that several folders use.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/base64.h"
#include "common/json/json.h"

namespace ringmaster {

// An enum with the values 0 … N - 1, written as its name. Unknown names are read as `unknown`, or
// rejected if `unknown` is not given.
template <std::size_t kN, typename Unknown = std::nullopt_t>
class AsWord {
 public:
  explicit AsWord(const std::array<const char*, kN>& names, Unknown unknown = std::nullopt)
      : names_(names), unknown_(unknown) {}

  template <typename E>
  Json Write(E value) const {
    return names_[static_cast<std::size_t>(value)];
  }
  // REQUIRES: `value` is set. Use this form with Sparse, which omits an unset field.
  template <typename E>
  Json Write(const std::optional<E>& value) const {
    return Write(*value);
  }
  template <typename E>
  std::string Read(const Json& json, E& value) const {
    if (!json.is_string()) return "expected text";
    const auto found = std::find(names_.begin(), names_.end(), json.get_ref<const std::string&>());
    if (found != names_.end()) {
      value = static_cast<E>(found - names_.begin());
      return {};
    }
    if constexpr (std::is_same_v<Unknown, std::nullopt_t>) {
      std::string wrong = "expected one of";
      for (const char* name : names_) wrong.append(name == names_[0] ? " " : ", ").append(name);
      return wrong;
    } else {
      value = unknown_;
      return {};
    }
  }
  template <typename E>
  std::string Read(const Json& json, std::optional<E>& value) const {
    return Read(json, value.emplace());
  }

 private:
  std::array<const char*, kN> names_;
  Unknown unknown_;
};

// An integer from `least` to `most`, or an enum that is written as its number.
struct AsNumber {
  int64_t least = 0;
  int64_t most = int64_t{1} << 53;  // the largest integer that every JSON reader represents exactly

  template <typename T>
  Json Write(T value) const {
    return static_cast<int64_t>(value);
  }
  template <typename T>
  std::string Read(const Json& json, T& value) const {
    const auto number = IntegerIn(json, least, most);
    if (!number || static_cast<int64_t>(static_cast<T>(*number)) != *number) {
      using Integer = typename std::conditional_t<std::is_enum_v<T>, std::underlying_type<T>,
                                                  std::type_identity<T>>::type;
      constexpr auto kLargest = std::numeric_limits<Integer>::max();
      const int64_t bound = std::cmp_less(kLargest, most) ? static_cast<int64_t>(kLargest) : most;
      return "is not an integer from " + std::to_string(least) + " to " + std::to_string(bound);
    }
    value = static_cast<T>(*number);
    return {};
  }
};

// Two numbers of a struct, each at least 0, written as [first, second].
template <typename T>
struct AsPair {
  int64_t T::*first;
  int64_t T::*second;

  Json Write(const T& value) const { return {value.*first, value.*second}; }
  std::string Read(const Json& json, T& value) const {
    if (!json.is_array() || json.size() != 2) return "is not a pair of numbers";
    std::string wrong = AsNumber().Read(json[0], value.*first);
    return wrong.empty() ? AsNumber().Read(json[1], value.*second) : wrong;
  }
};

// Bytes that may be invalid UTF-8, written as base64.
struct AsBase64 {
  Json Write(const std::string& bytes) const { return EncodeBase64(bytes); }
  std::string Read(const Json& json, std::string& bytes) const {
    if (!json.is_string()) return "expected text";
    auto decoded = DecodeBase64(json.get_ref<const std::string&>());
    if (!decoded) return "is not valid base64";
    bytes = std::move(*decoded);
    return {};
  }
};

struct AsBase64List {
  Json Write(const std::vector<std::string>& values) const {
    Json list = Json::array();
    for (const std::string& value : values) list.push_back(AsBase64().Write(value));
    return list;
  }
  std::string Read(const Json& json, std::vector<std::string>& values) const {
    if (!json.is_array()) return "expected a list";
    std::string wrong;
    for (const Json& item : json) {
      if (wrong.empty()) wrong = AsBase64().Read(item, values.emplace_back());
    }
    return wrong;
  }
};

}  // namespace ringmaster
