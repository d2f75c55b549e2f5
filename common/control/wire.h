#pragma once

// How our structs become JSON and back: each struct is described once, by a Describe() overload
// that names its fields, and that one description both writes and reads. Private to the codecs of
// this folder (and the launcher's tests of them): nobody else includes it, because it pulls in the
// JSON library.
//
// Reading follows the rule of compatibility in README.md: fields that it does not know are ignored,
// a missing Field is an error, a missing Optional keeps the struct's default. It is strict about
// types and ranges, never throws and is safe on any bytes.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/base64.h"
#include "common/base/result.h"
#include "common/control/launcher_api.h"
#include "common/control/members_wire.h"
#include "common/control/membership.h"
#include "common/control/workers_wire.h"

namespace ringmaster::control::wire {

using Json = nlohmann::json;

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <typename T>
inline constexpr bool kIsText = std::is_same_v<T, std::string>;
template <typename T>
inline constexpr bool kIsTextMap = std::is_same_v<T, std::map<std::string, std::string>>;

// Collects one struct's fields into a JSON object.
class Writer {
 public:
  template <typename T>
  using Ref = const T&;

  template <typename T>
  void Field(const char* name, const T& value) {
    json_[name] = ToJson(value);
  }
  // The same on the wire; a reader does without it.
  template <typename T>
  void Optional(const char* name, const T& value) {
    Field(name, value);
  }
  // The version that the writer speaks. A peer that says none speaks `first`.
  void Version(const char* name, int value, int /*first*/) { Field(name, value); }
  // An enum whose values are 0 … N - 1, by its name. A name that the reader does not know is read
  // as `unknown`.
  template <typename E, std::size_t kN>
  void Choice(const char* name, E value, const std::array<const char*, kN>& names, E /*unknown*/) {
    json_[name] = names[static_cast<std::size_t>(value)];
  }
  void Bytes(const char* name, const std::string& value) { json_[name] = EncodeBase64(value); }
  void BytesList(const char* name, const std::vector<std::string>& values) {
    Json list = Json::array();
    for (const std::string& value : values) list.push_back(EncodeBase64(value));
    json_[name] = std::move(list);
  }

  // Compact (members_wire.h): ranks are places in the list.
  void Members(const char* name, const std::vector<Member>& members) {
    json_[name] = MembersToJson(members);
  }
  void Workers(const char* name, const std::vector<DesiredWorker>& workers) {
    json_[name] = WorkersToJson(workers);
  }

  Json Take() { return std::move(json_); }

  template <typename T>
  static Json ToJson(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || kIsText<T> || kIsTextMap<T>) {
      return Json(value);  // the library writes a double that is no number as null
    } else if constexpr (IsVector<T>::value) {
      Json list = Json::array();
      for (const auto& item : value) list.push_back(ToJson(item));
      return list;
    } else if constexpr (IsOptional<T>::value) {
      return value ? ToJson(*value) : Json(nullptr);
    } else {
      Writer writer;
      Describe(writer, value);
      return writer.Take();
    }
  }

 private:
  Json json_ = Json::object();
};

// Reads one struct's fields from a JSON object. The first thing wrong is kept, with the field's
// path.
class Reader {
 public:
  template <typename T>
  using Ref = T&;

  // All three outlive the reader.
  Reader(const Json& object, const std::string& path, std::string& error)
      : object_(object), path_(path), error_(error) {
    if (!object.is_object()) Note(error_, path_, "expected an object");
  }

  template <typename T>
  void Field(const char* name, T& value) {
    if (const Json* json = Find(name)) {
      FromJson(*json, Path(name), error_, value);
    } else {
      Fail(name, "is missing");
    }
  }
  template <typename T>
  void Optional(const char* name, T& value) {
    const Json* json = Find(name);
    if (json != nullptr && !json->is_null()) FromJson(*json, Path(name), error_, value);
  }
  void Version(const char* name, int& value, int first) {
    value = first;
    Optional(name, value);
  }
  template <typename E, std::size_t kN>
  void Choice(const char* name, E& value, const std::array<const char*, kN>& names, E unknown) {
    std::string text;
    Field(name, text);
    const auto found = std::find(names.begin(), names.end(), text);
    value = found == names.end() ? unknown : static_cast<E>(found - names.begin());
  }
  void Bytes(const char* name, std::string& value) {
    std::string text;
    Field(name, text);
    DecodeInto(name, text, value);
  }
  void BytesList(const char* name, std::vector<std::string>& values) {
    std::vector<std::string> texts;
    Field(name, texts);
    for (const std::string& text : texts) DecodeInto(name, text, values.emplace_back());
  }

  void Members(const char* name, std::vector<Member>& members) {
    const Json* json = Find(name);
    if (json == nullptr) return Fail(name, "is missing");
    if (const char* wrong = MembersFromJson(*json, members)) Fail(name, wrong);
  }
  void Workers(const char* name, std::vector<DesiredWorker>& workers) {
    const Json* json = Find(name);
    if (json == nullptr) return Fail(name, "is missing");
    if (const char* wrong = WorkersFromJson(*json, workers)) Fail(name, wrong);
  }

  template <typename T>
  static void FromJson(const Json& json, const std::string& path, std::string& error, T& value) {
    if (!error.empty()) return;
    if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) return Note(error, path, "expected true or false");
      value = json.get<bool>();
    } else if constexpr (std::is_integral_v<T>) {
      ReadInteger(json, path, error, value);
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!json.is_number() && !json.is_null()) return Note(error, path, "expected a number");
      value = json.is_null() ? std::numeric_limits<T>::quiet_NaN() : json.get<T>();
    } else if constexpr (kIsText<T>) {
      if (!json.is_string()) return Note(error, path, "expected text");
      value = json.get_ref<const std::string&>();
    } else if constexpr (kIsTextMap<T>) {
      if (!json.is_object()) return Note(error, path, "expected an object of texts");
      for (const auto& [key, item] : json.items())
        FromJson(item, path + "." + key, error, value[key]);
    } else if constexpr (IsVector<T>::value) {
      if (!json.is_array()) return Note(error, path, "expected a list");
      value.clear();
      value.reserve(json.size());
      for (std::size_t i = 0; i < json.size() && error.empty(); ++i) {
        FromJson(json[i], path + "[" + std::to_string(i) + "]", error, value.emplace_back());
      }
    } else if constexpr (IsOptional<T>::value) {
      if (!json.is_null()) FromJson(json, path, error, value.emplace());
    } else {
      Reader reader(json, path, error);
      Describe(reader, value);
    }
  }

 private:
  static void Note(std::string& error, const std::string& path, const char* what) {
    if (error.empty()) error = path.empty() ? what : "field '" + path + "': " + what;
  }

  template <typename T>
  static void ReadInteger(const Json& json, const std::string& path, std::string& error, T& value) {
    if (!json.is_number_integer()) return Note(error, path, "expected an integer");
    // An unsigned JSON number may not fit 64 signed bits; everything of ours does.
    if (json.is_number_unsigned() &&
        json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<T>::max())) {
      return Note(error, path, "is too large");
    }
    const auto wide = json.get<int64_t>();
    if (wide < std::numeric_limits<T>::min() || wide > std::numeric_limits<T>::max()) {
      return Note(error, path, "is out of range");
    }
    value = static_cast<T>(wide);
  }

  const Json* Find(const char* name) const {
    if (!error_.empty() || !object_.is_object()) return nullptr;
    const auto it = object_.find(name);
    return it == object_.end() ? nullptr : &*it;
  }
  std::string Path(const char* name) const { return path_.empty() ? name : path_ + "." + name; }
  void Fail(const char* name, const char* what) { Note(error_, Path(name), what); }
  void DecodeInto(const char* name, const std::string& text, std::string& value) {
    if (!error_.empty()) return;
    if (auto bytes = DecodeBase64(text)) {
      value = std::move(*bytes);
    } else {
      Fail(name, "is no base64");
    }
  }

  const Json& object_;
  const std::string& path_;
  std::string& error_;
};

// --- the shared words (membership.h)
// -------------------------------------------------------------------------------

template <typename A>
void Describe(A& a, typename A::template Ref<Epoch> v) {
  a.Field("term", v.term);
  a.Field("number", v.number);
}

template <typename A>
void Describe(A& a, typename A::template Ref<CheckpointReport> v) {
  a.Field("epoch", v.epoch);
  a.Field("step", v.step);
  a.Optional("ageMillis", v.age_millis);
  a.Optional("bytes", v.bytes);
}

template <typename A>
void Describe(A& a, typename A::template Ref<Beginning> v) {
  a.Optional("step", v.step);
  a.Optional("message", v.message);
}

template <typename A>
void Describe(A& a, typename A::template Ref<OutOfMemory> v) {
  a.Optional("limitBytes", v.limit_bytes);
  a.Optional("peakBytes", v.peak_bytes);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankExit> v) {
  a.Field("rank", v.rank);
  a.Field("podUid", v.pod_uid);
  a.Optional("pod", v.pod);
  a.Optional("node", v.node);
  a.Field("slot", v.slot);
  a.Field("start", v.start);
  a.Field("exitCode", v.exit_code);
  a.Field("signal", v.signal);
  a.Optional("lastLines", v.last_lines);
  a.Optional("stack", v.stack);
  a.Optional("outOfMemory", v.out_of_memory);
}

template <typename A>
void Describe(A& a, typename A::template Ref<RankPosition> v) {
  a.Field("rank", v.rank);
  a.Field("slot", v.slot);
  a.Field("entered", v.entered);
  a.Optional("stopped", v.stopped);
  a.Field("step", v.step);
  a.Optional("bucket", v.bucket);
  // What a newer rank may be doing, nobody is blamed for.
  a.Choice("phase", v.phase, kRankPhaseNames, RankPhase::kEvaluate);
  a.Optional("peer", v.peer);
  a.Field("stillMillis", v.still_millis);
  a.Optional("stepMicros", v.step_micros);
  a.Optional("ownMicros", v.own_micros);
  a.Optional("appliedMillis", v.applied_millis);
}

template <typename A>
void Describe(A& a, typename A::template Ref<Progress> v) {
  a.Field("step", v.step);
  a.Optional("totalSteps", v.total_steps);
  a.Optional("samplesPerSecond", v.samples_per_second);
  a.Field("loss", v.loss);
  a.Optional("accuracy", v.accuracy);
}

template <typename A>
void Describe(A& a, typename A::template Ref<PreflightFault> v) {
  a.Field("check", v.check);
  a.Field("message", v.message);
}

// --- whole documents
// -----------------------------------------------------------------------------------------------

// Text of a JSON value; bytes that are no UTF-8 are replaced, so it cannot fail.
inline std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

template <typename T>
std::string EncodeDocument(const T& value) {
  return Dump(Writer::ToJson(value));
}

inline Result<Json> ParseObject(std::string_view text) {
  Json json = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Error{ErrorKind::kInvalid, "the text is no JSON"};
  if (!json.is_object()) return Error{ErrorKind::kInvalid, "the text is no JSON object"};
  return json;
}

template <typename T>
Result<T> DecodeObject(const Json& json) {
  T value;
  std::string error;
  Reader::FromJson(json, "", error, value);
  if (!error.empty()) return Error{ErrorKind::kInvalid, error};
  return value;
}

template <typename T>
Result<T> DecodeDocument(std::string_view text) {
  Result<Json> json = ParseObject(text);
  if (!json.ok()) return json.error();
  return DecodeObject<T>(*json);
}

}  // namespace ringmaster::control::wire
