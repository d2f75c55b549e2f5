#include "worker/audit/audit_line.h"

#include <charconv>
#include <cstdint>
#include <iterator>

#include "common/json/fields.h"
#include "common/json/forms.h"

namespace ringmaster::audit {
namespace {

constexpr AsPair<Epoch> kEpochPair{&Epoch::term, &Epoch::number};

// The format of a checksum, which is only parsed and never written.
struct AsChecksum {
  template <typename T>
  std::string Read(const Json& json, T& value) const {
    uint64_t number = 0;
    const std::string text = json.is_string() ? json.get<std::string>() : "";
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, 16);
    if (text.size() != 16 || error != std::errc() || end != text.data() + text.size()) {
      return "is not 16 hexadecimal digits";
    }
    value = number;
    return {};
  }
};

struct AdoptedState {
  Epoch epoch;
  int64_t step = 0;
  std::string from;
};

void Describe(auto& a, Is<AdoptedState> auto& v) {
  a.Field("epoch", v.epoch, kEpochPair);
  a.Field("step", v.step, AsNumber());
  a.Optional("from", v.from);
  a.Check(v.from.empty() || v.from == "checkpoint" || v.from == "snapshot", "from",
          "is not a known value");
}

}  // namespace

void Describe(auto& a, Is<WorldLine> auto& v) {
  a.Field("term", v.epoch.term, AsNumber());
  a.Field("number", v.epoch.number, AsNumber());
  a.Field("members", v.members);
  int64_t size = 0;
  a.Field("size", size, AsNumber{1, kMostRanks});
  a.Check(size == std::ssize(v.members), "members", "do not match the world size");
  a.Field("rank", v.rank, AsNumber{0, size - 1});
  a.Optional("full_size", v.full_size, AsNumber{0});
  a.Field("global_batch", v.global_batch, AsNumber{1});
  a.Field("checksum", v.checksum, AsChecksum());
  a.Optional("sharded", v.sharded, AsChecksum());
  AdoptedState adopted;
  a.Field("adopted", adopted);
  v.adopted_epoch = adopted.epoch;
  v.adopted_step = adopted.step;
  v.adopted_from = adopted.from;
}

void Describe(auto& a, Is<StepLine> auto& v) {
  a.Field("epoch", v.epoch, kEpochPair);
  a.Field("step", v.step, AsNumber{1});
  a.Field("rank", v.rank, AsNumber{0, kMostRanks - 1});
  a.Field("samples", v.samples, AsPair<Samples>{&Samples::begin, &Samples::end});
  a.Check(v.samples.begin <= v.samples.end, "samples", "end before they start");
  a.Optional("checksum", v.checksum, AsChecksum());
  a.Optional("part", v.part, AsChecksum());
}

Result<AuditLine> ParseLine(std::string_view text) {
  if (text.size() > kMaxLineBytes) return Error{ErrorKind::kInvalid, "the line is too long"};
  const Result<Json> json = ParseJsonObject(text);
  if (!json.ok()) return json.error();
  if (const auto world = json->find("world"); world != json->end()) {
    const Result<WorldLine> line = FromJson<WorldLine>(*world, "world");
    if (!line.ok()) return line.error();
    return AuditLine(*line);
  }
  const auto begun = json->find("begun");
  Result<StepLine> line =
      begun == json->end() ? FromJson<StepLine>(*json) : FromJson<StepLine>(*begun, "begun");
  if (!line.ok()) return line.error();
  if (begun != json->end()) line->checksum = line->part = std::nullopt;
  if (begun == json->end() && !line->checksum) {
    return Error{ErrorKind::kInvalid, "field 'checksum': is missing"};
  }
  return AuditLine(*line);
}

}  // namespace ringmaster::audit
