// The functions of CheckpointFolder for sharded states, whose checkpoints have parts.

#include <algorithm>
#include <filesystem>

#include "worker/trainer/checkpoint/checkpoint_folder.h"
#include "worker/trainer/numeric/share.h"

namespace ringmaster::trainer {
namespace {

Error NotSpokenOf(const std::string& path) {
  return Damaged(path + ": it is not the file that DONE refers to");
}

std::string PartName(int32_t part) { return "part-" + std::to_string(part); }

}  // namespace

std::string CheckpointFolder::PartPath(const StateVersion& version, int32_t part) const {
  return PathOf(version) + "/" + PartName(part);
}

std::string CheckpointFolder::PartAside(const StateVersion& version, const control::Epoch& world,
                                        int32_t part, int32_t parts) const {
  return path_ + "/.writing-" + CheckpointName(version) + "~of-" + std::to_string(world.term) +
         "." + std::to_string(world.number) + "~part-" + std::to_string(part) + "-of-" +
         std::to_string(parts);
}

Result<void> CheckpointFolder::WritePart(const control::Epoch& world, const ShardHeader& header,
                                         std::span<float> rows, const std::stop_token& stop,
                                         std::atomic<uint64_t>* taken) const {
  if (Result<void> made = Make(); !made.ok()) return made;
  const std::string path = PartAside(header.version, world, header.shard, header.shards);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);  // an earlier attempt may have left a file
  const Result<uint64_t> written = WriteShard(path, header, {rows}, stop, taken);
  if (!written.ok()) {
    std::filesystem::remove(path, ignored);
    return written.error();
  }
  return SyncFolder(path_);
}

Result<void> CheckpointFolder::AdoptParts(CheckpointDraft& draft, const control::Epoch& world,
                                          int count) const {
  for (int32_t part = 0; part < count; ++part) {
    const std::string aside = PartAside(draft.version, world, part, count);
    const Result<ShardHeader> header = ReadShardHeader(aside);
    if (!header.ok()) return header.error();
    const Result<std::optional<uint64_t>> bytes = FileBytes(aside);
    if (!bytes.ok()) return bytes.error();
    std::error_code error;
    std::filesystem::rename(aside, draft.aside + "/" + PartName(part), error);
    if (error) {
      return Error{ErrorKind::kUnavailable, "while moving " + aside + ": " + error.message()};
    }
    draft.shards.push_back(
        {.shard = part + 1, .bytes = bytes->value_or(0), .checksum = header->checksum});
  }
  return {};
}

// Checks only headers and sizes, which is fast. LoadRows() checks the data.
Result<void> CheckpointFolder::CheckParts(const StateVersion& version,
                                          const StateIdentity& identity,
                                          const std::vector<DoneShard>& done) const {
  const auto count = static_cast<int32_t>(done.size()) - 1;
  for (int32_t part = 0; part < count; ++part) {
    const std::string path = PartPath(version, part);
    const Result<ShardHeader> header = ReadShardHeader(path);
    if (!header.ok()) return header.error();
    const Result<std::optional<uint64_t>> bytes = FileBytes(path);
    if (!bytes.ok()) return bytes.error();
    const DoneShard& expected = done[static_cast<std::size_t>(part) + 1];
    const bool same = *bytes == expected.bytes && header->checksum == expected.checksum &&
                      header->version == version && header->shard == part &&
                      header->shards == count && header->identity.model == identity.model;
    if (!same) return NotSpokenOf(path);
  }
  return {};
}

Result<void> CheckpointFolder::LoadRows(const StateVersion& version, const StateIdentity& identity,
                                        const RowsWanted& wanted, std::span<float> rows) const {
  const Result<std::vector<DoneShard>> done = ReadDone(version);
  if (!done.ok()) return done.error();
  const auto count = static_cast<int32_t>(done->size()) - 1;
  if (count < 1) {
    return Error{ErrorKind::kInvalid, PathOf(version) + " contains no parts that hold table rows"};
  }
  for (int32_t part = 0; part < count; ++part) {
    const Share of_part = ShareOf(part, count, wanted.all_rows);
    const int64_t begin = std::max(of_part.begin, wanted.begin);
    const int64_t end = std::min(of_part.end, wanted.end);
    if (begin >= end) continue;
    const std::string path = PartPath(version, part);
    const Result<LoadedShard> loaded = ReadShard(
        path, identity, {static_cast<uint64_t>(of_part.size() * wanted.row_values)}, count);
    if (!loaded.ok() && loaded.error().kind == ErrorKind::kUnavailable) return loaded.error();
    if (!loaded.ok()) {
      return Error{ErrorKind::kInvalid, loaded.error().message + "; restore a copy, or remove " +
                                            PathOf(version) +
                                            " to resume from the previous checkpoint"};
    }
    const DoneShard& expected = (*done)[static_cast<std::size_t>(part) + 1];
    if (loaded->header.shard != part || loaded->header.checksum != expected.checksum) {
      return Error{ErrorKind::kInvalid, NotSpokenOf(path).message};
    }
    const auto from =
        std::span(loaded->values[0])
            .subspan(static_cast<std::size_t>((begin - of_part.begin) * wanted.row_values),
                     static_cast<std::size_t>((end - begin) * wanted.row_values));
    std::ranges::copy(from, rows.begin() + (begin - wanted.begin) * wanted.row_values);
  }
  return {};
}

}  // namespace ringmaster::trainer
