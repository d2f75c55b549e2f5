#include "worker/trainer/checkpoint/shard_format.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/cut_text.h"

namespace ringmaster::trainer {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr std::string_view kMagic = "RMSHARD\n";
constexpr std::size_t kAlignment = 64;
constexpr std::size_t kMostParts = 1 << 16;
constexpr std::size_t kFormatAt = 8;
constexpr std::size_t kLengthAt = 16;
constexpr std::size_t kChecksumAt = 24;

template <typename T>
T Get(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <typename T>
void Put(std::span<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

// FNV-1a over the whole header except for the checksum itself.
uint64_t HeaderChecksum(std::span<const std::byte> bytes) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i >= kChecksumAt && i < kShardPrefixBytes) continue;
    hash = (hash ^ static_cast<uint64_t>(bytes[i])) * 0x100000001b3ULL;
  }
  return hash;
}

class FieldWriter {
 public:
  template <typename T>
  void Number(T value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + sizeof(T));
    Put(std::span(bytes_), at, value);
  }
  void Text(const std::string& text) {
    Number(static_cast<uint32_t>(text.size()));
    const auto from = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), from.begin(), from.end());
  }
  std::vector<std::byte> Take() {
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kShardPrefixBytes);
};

// Never reads beyond `bytes`. If bytes are missing, returns 0 or "", and ok() becomes false.
class FieldReader {
 public:
  explicit FieldReader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  T Number() {
    const auto from = Take(sizeof(T));
    return from.empty() ? T{} : Get<T>(from, 0);
  }
  std::string Text() {
    const auto from = Take(Number<uint32_t>());
    return {reinterpret_cast<const char*>(from.data()), from.size()};
  }
  bool ok() const { return ok_; }

 private:
  std::span<const std::byte> Take(std::size_t count) {
    if (count > left_.size()) {
      ok_ = false;
      left_ = {};
      return {};
    }
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }

  std::span<const std::byte> left_;
  bool ok_ = true;
};

// Removes the first line from `text` and returns the line.
std::string_view NextLine(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return line;
}

// Returns the value of a line "name=value".
std::string_view ValueOf(std::string_view line) {
  const std::size_t equals = line.find('=');
  return equals == std::string_view::npos ? std::string_view() : line.substr(equals + 1, 200);
}

std::string QuotedLine(std::string_view line) {
  return line.empty() ? "nothing" : "'" + std::string(line.substr(0, 200)) + "'";
}

std::string WhyOtherModel(std::string_view have, std::string_view want) {
  while (!have.empty() || !want.empty()) {
    const std::string_view theirs = NextLine(have);
    const std::string_view ours = NextLine(want);
    if (theirs != ours) {
      return "it belongs to another model: it has " + QuotedLine(theirs) + " where this one has " +
             QuotedLine(ours);
    }
  }
  return "it is of another model";
}

}  // namespace

Error Damaged(std::string what) { return {ErrorKind::kInvalid, std::move(what), kDamaged}; }

bool IsDamage(const Error& error) { return error.reason == kDamaged; }

std::vector<std::byte> EncodeShardHeader(const ShardHeader& header) {
  FieldWriter fields;
  fields.Text(header.identity.run);
  fields.Text(header.identity.model);
  fields.Text(header.identity.shaping);
  fields.Number(header.version.epoch.term);
  fields.Number(header.version.epoch.number);
  fields.Number(header.version.step);
  fields.Number(header.term_base);
  fields.Number(header.shard);
  fields.Number(header.shards);
  fields.Number(header.checksum);
  fields.Number(static_cast<uint32_t>(header.parts.size()));
  for (const uint64_t part : header.parts) fields.Number(part);
  std::vector<std::byte> bytes = fields.Take();
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  Put(std::span(bytes), kFormatAt, kShardFormat);
  Put(std::span(bytes), kLengthAt, static_cast<uint64_t>(bytes.size()));
  Put(std::span(bytes), kChecksumAt, HeaderChecksum(bytes));
  return bytes;
}

Result<std::size_t> ShardHeaderBytes(std::span<const std::byte> prefix) {
  if (std::memcmp(prefix.data(), kMagic.data(), kMagic.size()) != 0) {
    return Damaged("it does not start with a state header");
  }
  const auto length = Get<uint64_t>(prefix, kLengthAt);
  if (length < kShardPrefixBytes || length > kMaxShardHeaderBytes || length % kAlignment != 0) {
    return Damaged("its header's length is damaged");
  }
  return static_cast<std::size_t>(length);
}

Result<ShardHeader> DecodeShardHeader(std::span<const std::byte> bytes) {
  if (bytes.size() < kShardPrefixBytes) return Damaged("its header is truncated");
  const Result<std::size_t> length = ShardHeaderBytes(bytes);
  if (!length.ok()) return length.error();
  if (*length != bytes.size()) return Damaged("its header is truncated");
  if (Get<uint64_t>(bytes, kChecksumAt) != HeaderChecksum(bytes)) {
    return Damaged("its header does not match its checksum");
  }
  const auto format = Get<uint32_t>(bytes, kFormatAt);
  if (format > kShardFormat) {
    return Error{ErrorKind::kInvalid,
                 "it has format " + std::to_string(format) +
                     ", written by a newer Ringmaster; this version reads up to " +
                     std::to_string(kShardFormat) + "; use an image that is at least as new"};
  }
  FieldReader fields(bytes.subspan(kShardPrefixBytes));
  ShardHeader header;
  header.identity.run = fields.Text();
  header.identity.model = fields.Text();
  header.identity.shaping = fields.Text();
  header.version.epoch.term = fields.Number<int64_t>();
  header.version.epoch.number = fields.Number<int64_t>();
  header.version.step = fields.Number<int64_t>();
  header.term_base = fields.Number<int64_t>();
  header.shard = fields.Number<int32_t>();
  header.shards = fields.Number<int32_t>();
  header.checksum = fields.Number<uint64_t>();
  const auto parts = fields.Number<uint32_t>();
  if (parts > kMostParts) return Damaged("its header lists too many parts");
  for (uint32_t i = 0; fields.ok() && i < parts; ++i) {
    header.parts.push_back(fields.Number<uint64_t>());
  }
  if (!fields.ok()) return Damaged("its header ends too early");
  const bool sound = header.version.step >= 0 && header.version.epoch.number >= 0 &&
                     header.term_base >= 0 && header.version.epoch.term >= header.term_base &&
                     header.version.epoch.term < int64_t{1} << 53 && header.shard >= 0 &&
                     header.shard < header.shards;
  if (!sound) return Damaged("its header contains invalid numbers");
  return header;
}

Result<uint64_t> ShardDataBytes(const ShardHeader& header) {
  constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max() / 2;
  uint64_t values = 0;
  for (const uint64_t part : header.parts) {
    if (part > kMost / sizeof(float) - values) return Damaged("its header contains invalid sizes");
    values += part;
  }
  return values * sizeof(float);
}

std::string WhyOther(const ShardHeader& have, const StateIdentity& want,
                     std::span<const uint64_t> parts, int32_t shards) {
  if (have.identity.model != want.model) return WhyOtherModel(have.identity.model, want.model);
  if (have.shards != shards) {
    return "it has " + std::to_string(have.shards) + " shards instead of " +
           (shards == 1 ? "one" : std::to_string(shards));
  }
  if (!std::equal(have.parts.begin(), have.parts.end(), parts.begin(), parts.end())) {
    return "its optimizer state differs";
  }
  return "";
}

std::string WhatDiffers(std::string_view theirs, std::string_view ours) {
  constexpr std::size_t kMaxListed = 12;
  std::map<std::string_view, std::pair<std::string_view, std::string_view>> values;
  for (std::string_view line; !theirs.empty();) {
    line = NextLine(theirs);
    values[line.substr(0, line.find('='))].first = ValueOf(line);
  }
  for (std::string_view line; !ours.empty();) {
    line = NextLine(ours);
    values[line.substr(0, line.find('='))].second = ValueOf(line);
  }
  const auto shown = [](std::string_view of) { return of.empty() ? "nothing" : std::string(of); };
  std::vector<std::string> differing;
  for (const auto& [name, value] : values) {
    if (value.first == value.second) continue;
    const std::string written(name);
    differing.push_back(name.starts_with("--") ? written + "=" + shown(value.first) +
                                                     " instead of " + shown(value.second)
                                               : "other " + written);
  }
  return ListText(differing, kMaxListed);
}

}  // namespace ringmaster::trainer
