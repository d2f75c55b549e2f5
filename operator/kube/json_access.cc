#include "operator/kube/json_access.h"

#include <charconv>
#include <limits>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/json/json.h"

namespace ringmaster::kube {
namespace {

// Builds a document from the parser's events, without the values of metadata.managedFields.
class ServerJsonBuilder {
 public:
  using json = nlohmann::json;

  bool null() { return Add(nullptr); }
  bool boolean(bool value) { return Add(value); }
  bool number_integer(json::number_integer_t value) { return Add(value); }
  bool number_unsigned(json::number_unsigned_t value) { return Add(value); }
  bool number_float(json::number_float_t value, const json::string_t&) { return Add(value); }
  bool string(json::string_t& value) { return Add(std::move(value)); }
  bool binary(json::binary_t&) { return false; }  // not called for JSON text
  bool start_object(std::size_t) { return Open(json::object()); }
  bool end_object() { return Close(); }
  bool start_array(std::size_t) { return Open(json::array()); }
  bool end_array() { return Close(); }
  bool key(json::string_t& name) {
    if (skipped_depth_ > 0) return true;
    skip_next_ = open_.back().is_metadata && name == "managedFields";
    key_is_metadata_ = name == "metadata";
    if (!skip_next_) slot_ = &(*open_.back().node)[name];
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) {
    return false;
  }

  json Take() && { return std::move(root_); }

 private:
  struct Level {
    json* node;
    bool is_metadata;
  };

  template <typename Value>
  bool Add(Value&& value) {
    if (skipped_depth_ == 0 && !std::exchange(skip_next_, false))
      Place(json(std::forward<Value>(value)));
    return true;
  }

  json* Place(json&& value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& node = *open_.back().node;
    if (node.is_array()) {
      node.push_back(std::move(value));
      return &node.back();
    }
    *slot_ = std::move(value);
    return slot_;
  }

  bool Open(json&& empty) {
    if (skipped_depth_ > 0 || std::exchange(skip_next_, false)) {
      ++skipped_depth_;
      return true;
    }
    const bool is_metadata = std::exchange(key_is_metadata_, false) && empty.is_object();
    open_.push_back({Place(std::move(empty)), is_metadata});
    return true;
  }

  bool Close() {
    if (skipped_depth_ > 0) {
      --skipped_depth_;
    } else {
      open_.pop_back();
    }
    return true;
  }

  json root_;
  std::vector<Level> open_;
  json* slot_ = nullptr;  // where to store the last key's value
  bool key_is_metadata_ = false;
  bool skip_next_ = false;
  int skipped_depth_ = 0;
};

// Reads object.metadata.namespace and name from the parser's events without building a document.
class EventBeginningReader {
 public:
  using json = nlohmann::json;

  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(json::number_integer_t) { return true; }
  bool number_unsigned(json::number_unsigned_t) { return true; }
  bool number_float(json::number_float_t, const json::string_t&) { return true; }
  bool binary(json::binary_t&) { return false; }
  bool string(json::string_t& value) {
    if (depth_ != 3 || !in_object_ || !in_metadata_) return true;
    if (key_ == "name") found_.name = std::move(value);
    if (key_ == "namespace") found_.ns = std::move(value);
    return true;
  }
  bool start_object(std::size_t) {
    ++depth_;
    if (depth_ == 2) in_object_ = key_ == "object";
    if (depth_ == 3) in_metadata_ = key_ == "metadata";
    return true;
  }
  bool end_object() { return Leave(); }
  bool start_array(std::size_t) {
    ++depth_;
    if (depth_ <= 3) in_metadata_ = false;
    return true;
  }
  bool end_array() { return Leave(); }
  bool key(json::string_t& name) {
    if (depth_ <= 3) key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) {
    return false;
  }

  EventBeginning Take() && { return std::move(found_); }

 private:
  bool Leave() {
    --depth_;
    return true;
  }

  EventBeginning found_;
  std::string key_;
  int depth_ = 0;
  bool in_object_ = false;
  bool in_metadata_ = false;
};

}  // namespace

const nlohmann::json* Find(const nlohmann::json& json, JsonPath path) {
  const nlohmann::json* value = &json;
  for (const std::string_view part : path) {
    if (!value->is_object()) return nullptr;
    const auto found = value->find(part);
    if (found == value->end()) return nullptr;
    value = &*found;
  }
  return value->is_null() ? nullptr : value;
}

std::string GetString(const nlohmann::json& json, JsonPath path, std::string_view otherwise) {
  const nlohmann::json* value = Find(json, path);
  if (value == nullptr || !value->is_string()) return std::string(otherwise);
  return value->get_ref<const std::string&>();
}

bool GetBool(const nlohmann::json& json, JsonPath path, bool otherwise) {
  const nlohmann::json* value = Find(json, path);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : otherwise;
}

std::optional<int64_t> GetInt64(const nlohmann::json& json, JsonPath path) {
  const nlohmann::json* value = Find(json, path);
  using Limits = std::numeric_limits<int64_t>;
  return value == nullptr ? std::nullopt : IntegerIn(*value, Limits::min(), Limits::max());
}

std::optional<int32_t> GetInt32(const nlohmann::json& json, JsonPath path) {
  const std::optional<int64_t> value = GetInt64(json, path);
  if (!value || !std::in_range<int32_t>(*value)) return std::nullopt;
  return static_cast<int32_t>(*value);
}

const nlohmann::json& GetArray(const nlohmann::json& json, JsonPath path) {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  const nlohmann::json* value = Find(json, path);
  return value != nullptr && value->is_array() ? *value : kEmpty;
}

std::map<std::string, std::string> GetStringMap(const nlohmann::json& json, JsonPath path) {
  std::map<std::string, std::string> entries;
  const nlohmann::json* value = Find(json, path);
  if (value == nullptr || !value->is_object()) return entries;
  for (const auto& [key, entry] : value->items()) {
    if (entry.is_string()) entries.emplace(key, entry.get_ref<const std::string&>());
  }
  return entries;
}

std::optional<int64_t> ReadWholeQuantity(const nlohmann::json& quantity) {
  if (quantity.is_number_integer()) return GetInt64(quantity, {});
  if (!quantity.is_string()) return std::nullopt;
  const std::string text = quantity.get<std::string>();
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

Result<nlohmann::json> ParseServerJson(std::string_view text) {
  ServerJsonBuilder builder;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    return Error{ErrorKind::kInvalid, "the text is not JSON"};
  }
  return std::move(builder).Take();
}

EventBeginning ReadEventBeginning(std::string_view text) {
  EventBeginningReader reader;
  (void)nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return std::move(reader).Take();
}

Json MakeMergePatch(const Json& from, const Json& to) {
  Json patch = Json::object();
  for (const auto& [key, value] : to.items()) {
    const auto old = from.find(key);
    if (old == from.end()) {
      patch[key] = value;
    } else if (old->is_object() && value.is_object()) {
      Json inner = MakeMergePatch(*old, value);
      if (!inner.empty()) patch[key] = std::move(inner);
    } else if (*old != value) {
      patch[key] = value;
    }
  }
  for (const auto& [key, value] : from.items()) {
    if (!to.contains(key)) patch[key] = nullptr;
  }
  return patch;
}

}  // namespace ringmaster::kube
