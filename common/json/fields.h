#pragma once

// Describes the fields of a struct once, for both writing and reading its JSON:
//
//   void Describe(auto& fields, Is<Epoch> auto& epoch) {  // in the namespace of Epoch
//     fields.Field("term", epoch.term);
//     fields.Optional("number", epoch.number);
//   }
//   const std::string text = EncodeJson(epoch);
//   const Result<Epoch> epoch = DecodeJson<Epoch>(text);
//
//   verb      written                       read
//   Field     always                        required
//   Optional  always                        if missing or null, the struct keeps its value
//   Sparse    unless equal to `otherwise`   like Optional
//
// A field is a bool, a signed integer, a double, a string, seconds, another described struct, or a
// list, map or std::optional of these. Other types need a form: an object with `Json Write(const
// T&) const` and `std::string Read(const Json&, T&) const`. Read() returns an error text, empty if
// the value is valid. Unknown fields are ignored. Reading checks types and ranges and never throws;
// it returns the first error with its path: "field 'ranks[2].slot': …".

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/base/cut_text.h"
#include "common/base/result.h"
#include "common/json/json.h"

namespace ringmaster {

template <typename V, typename T>
concept Is = std::same_as<std::remove_const_t<V>, T>;

template <typename T>
Json ToJson(const T& value);

// The default form, for types that do not need another one.
struct PlainJson {
  Json Write(const auto& value) const { return ToJson(value); }
};

// Collects a struct's fields.
class JsonWriter {
 public:
  template <typename T, typename Form = PlainJson>
  void Field(const char* name, const T& value, const Form& form = {}) {
    json_[name] = form.Write(value);
  }
  template <typename T, typename Form = PlainJson>
  void Optional(const char* name, const T& value, const Form& form = {}) {
    Field(name, value, form);
  }
  template <typename T, typename Form = PlainJson>
  void Sparse(const char* name, const T& value, const std::type_identity_t<T>& otherwise = {},
              const Form& form = {}) {
    if (!(value == otherwise)) Field(name, value, form);
  }
  // Writes the protocol version. When reading, a missing version means `first`.
  void Version(const char* name, int value, int /*first*/) { Field(name, value); }
  // Writes or reads a nested object that has no struct. Calls `describe` with the nested writer or
  // reader. When reading, the object may be missing.
  void Inside(const char* name, const auto& describe, bool even_if_empty = true) {
    JsonWriter inner;
    describe(inner);
    if (even_if_empty || !inner.json_.empty()) json_[name] = std::move(inner.json_);
  }
  // When reading, fails with `wrong` if `fine` is false. Has no effect when writing.
  void Check(bool /*fine*/, const char* /*name*/, const char* /*wrong*/) {}

  Json Take() && { return std::move(json_); }

 private:
  Json json_ = Json::object();
};

// The position of a value in its document; formatted only for errors.
struct JsonPlace {
  const JsonPlace* outer = nullptr;
  std::string_view name{};  // empty for an item of a list
  std::size_t index = 0;

  std::string Text() const;
};

struct JsonFindings {
  std::string wrong{};  // the first error, with its path
  // If set, invalid values count as missing, and texts are cut to this many bytes.
  std::optional<std::size_t> longest_text{};

  // Keeps the first error, unless invalid values count as missing. Always returns false.
  bool Note(const JsonPlace& place, std::string what);
};

// Fills a struct's fields. Has the same functions as JsonWriter.
class JsonReader {
 public:
  // All three arguments must outlive the reader.
  JsonReader(const Json& object, const JsonPlace& place, JsonFindings& findings)
      : object_(object), place_(place), findings_(findings) {
    if (!object.is_object()) findings.Note(place, "expected an object");
  }

  template <typename T, typename Form = PlainJson>
  void Field(const char* name, T& value, const Form& form = {}) {
    if (const Json* json = Find(name)) {
      ReadAs(*json, name, value, form);
    } else {
      Check(false, name, "is missing");
    }
  }
  template <typename T, typename Form = PlainJson>
  void Optional(const char* name, T& value, const Form& form = {}) {
    if (const Json* json = Find(name); json != nullptr && !json->is_null()) {
      ReadAs(*json, name, value, form);
    }
  }
  template <typename T, typename Form = PlainJson>
  void Sparse(const char* name, T& value, const std::type_identity_t<T>& /*otherwise*/ = {},
              const Form& form = {}) {
    Optional(name, value, form);
  }
  void Version(const char* name, int& value, int first) {
    value = first;
    Optional(name, value);
  }
  void Inside(const char* name, const auto& describe, bool /*even_if_empty*/ = true) {
    const Json* json = Find(name);
    if (json == nullptr || json->is_null()) return;
    const JsonPlace place{&place_, name};
    JsonReader inner(*json, place, findings_);
    describe(inner);
  }
  void Check(bool fine, const char* name, const char* wrong) {
    if (!fine) findings_.Note({&place_, name}, wrong);
  }

  // Returns false if the value could not be read.
  template <typename T>
  static bool Read(const Json& json, const JsonPlace& place, JsonFindings& findings, T& value) {
    if (!findings.wrong.empty()) return false;
    if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) return findings.Note(place, "expected true or false");
      value = json.get<bool>();
    } else if constexpr (std::signed_integral<T>) {
      if (!json.is_number_integer()) return findings.Note(place, "expected an integer");
      using Limits = std::numeric_limits<T>;
      const auto number = IntegerIn(json, Limits::min(), Limits::max());
      const bool large = json.is_number_unsigned();
      if (!number) return findings.Note(place, large ? "is too large" : "is out of range");
      value = static_cast<T>(*number);
    } else if constexpr (std::floating_point<T>) {
      if (!json.is_number() && !json.is_null()) return findings.Note(place, "expected a number");
      value = json.is_null() ? std::numeric_limits<T>::quiet_NaN() : json.get<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_string()) return findings.Note(place, "expected text");
      value = json.get_ref<const std::string&>();
      if (findings.longest_text) value = CutText(std::move(value), *findings.longest_text);
    } else if constexpr (std::is_same_v<T, std::chrono::seconds>) {
      int32_t seconds = 0;  // 32 bits, so that no sum of times overflows
      if (!Read(json, place, findings, seconds)) return false;
      value = T(seconds);
    } else if constexpr (requires { value.emplace_back(); }) {
      if (!json.is_array()) return findings.Note(place, "expected a list");
      value.clear();
      for (std::size_t i = 0; i < json.size() && findings.wrong.empty(); ++i) {
        if (!Read(json[i], {&place, {}, i}, findings, value.emplace_back())) value.pop_back();
      }
    } else if constexpr (requires { typename T::mapped_type; }) {
      if (!json.is_object()) return findings.Note(place, "expected an object");
      for (const auto& [key, item] : json.items()) {
        if (!Read(item, {&place, key}, findings, value[key])) value.erase(key);
      }
    } else if constexpr (requires { value.has_value(); }) {
      if (!json.is_null() && !Read(json, place, findings, value.emplace())) value.reset();
    } else {
      JsonReader reader(json, place, findings);
      Describe(reader, value);
      return json.is_object() && findings.wrong.empty();
    }
    return findings.wrong.empty();
  }

 private:
  const Json* Find(const char* name) const {
    if (!findings_.wrong.empty() || !object_.is_object()) return nullptr;
    const auto found = object_.find(name);
    return found == object_.end() ? nullptr : &*found;
  }

  template <typename T, typename Form>
  void ReadAs(const Json& json, const char* name, T& value, const Form& form) {
    const JsonPlace place{&place_, name};
    if constexpr (std::is_same_v<Form, PlainJson>) {
      Read(json, place, findings_, value);
    } else if (std::string wrong = form.Read(json, value); !wrong.empty()) {
      findings_.Note(place, std::move(wrong));
    }
  }

  const Json& object_;
  const JsonPlace& place_;
  JsonFindings& findings_;
};

template <typename T>
Json ToJson(const T& value) {
  if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return Json(value);  // the library writes NaN and infinities as null
  } else if constexpr (std::is_same_v<T, std::chrono::seconds>) {
    return Json(value.count());
  } else if constexpr (requires(T & list) { list.emplace_back(); }) {
    Json list = Json::array();
    for (const auto& item : value) list.push_back(ToJson(item));
    return list;
  } else if constexpr (requires { typename T::mapped_type; }) {
    Json object = Json::object();
    for (const auto& [key, item] : value) object[key] = ToJson(item);
    return object;
  } else if constexpr (requires { value.has_value(); }) {
    return value ? ToJson(*value) : Json(nullptr);
  } else {
    JsonWriter writer;
    Describe(writer, value);
    return std::move(writer).Take();
  }
}

// Returns the value, or kInvalid with the path of the wrong field, which begins with `path`.
template <typename T>
Result<T> FromJson(const Json& json, std::string_view path = "") {
  T value;
  JsonFindings findings;
  JsonReader::Read(json, {.name = path}, findings, value);
  if (!findings.wrong.empty()) return Error{ErrorKind::kInvalid, findings.wrong};
  return value;
}

// Like FromJson(), but invalid fields keep their defaults, and long texts are cut.
template <typename T>
T FromJsonLeniently(const Json& json, std::size_t longest_text) {
  T value;
  JsonFindings findings{.longest_text = longest_text};
  JsonReader::Read(json, {.name = ""}, findings, value);
  return value;
}

template <typename T>
std::string EncodeJson(const T& value) {
  return DumpJson(ToJson(value));
}

template <typename T>
Result<T> DecodeJson(std::string_view text) {
  const Result<Json> json = ParseJsonObject(text);
  if (!json.ok()) return json.error();
  return FromJson<T>(*json);
}

}  // namespace ringmaster
