// The parts of a checkpoint: what CheckpointFolder does for a state that is spread over ranks.

#include <algorithm>
#include <filesystem>

#include "worker/trainer/checkpoint/checkpoint_folder.h"
#include "worker/trainer/data/data_order.h"

namespace ringmaster::trainer {
namespace {

Error NotSpokenOf(const std::string& path) {
  return {ErrorKind::kUnavailable, path + ": it is not the file that DONE speaks of"};
}

}  // namespace

std::string CheckpointFolder::PartPath(const StateVersion& version, int32_t part) const {
  return PathOf(version) + "/part-" + std::to_string(part);
}

std::string CheckpointFolder::PartAside(const StateVersion& version, int32_t part,
                                        int32_t parts) const {
  return path_ + "/.writing-" + CheckpointName(version) + "~part-" + std::to_string(part) + "-of-" +
         std::to_string(parts);
}

Result<void> CheckpointFolder::WritePart(const ShardHeader& header, std::span<float> rows,
                                         const std::stop_token& stop) const {
  const std::string path = PartAside(header.version, header.shard, header.shards);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);  // of a world before, whose ranks had the same version
  const Result<uint64_t> written = WriteShard(path, header, {rows}, stop);
  if (!written.ok()) {
    std::filesystem::remove(path, ignored);
    return written.error();
  }
  return SyncFolder(path_);
}

Result<std::vector<DoneShard>> CheckpointFolder::AdoptParts(const StateVersion& version,
                                                            int count) const {
  std::vector<DoneShard> parts;
  for (int32_t part = 0; part < count; ++part) {
    const std::string aside = PartAside(version, part, count);
    const Result<ShardHeader> header = ReadShardHeader(aside);
    if (!header.ok()) return header.error();
    std::error_code error;
    const uint64_t bytes = std::filesystem::file_size(aside, error);
    if (!error) std::filesystem::rename(aside, PartPath(version, part), error);
    if (error) {
      return Error{ErrorKind::kUnavailable, "while moving " + aside + ": " + error.message()};
    }
    parts.push_back({.shard = part + 1, .bytes = bytes, .checksum = header->checksum});
  }
  if (Result<void> synced = SyncFolder(PathOf(version)); !synced.ok()) return synced.error();
  return parts;
}

// Cheap: headers and sizes. The data are checked by those who read them.
Result<void> CheckpointFolder::CheckParts(const StateVersion& version,
                                          const StateIdentity& identity,
                                          const std::vector<DoneShard>& done) const {
  const auto count = static_cast<int32_t>(done.size()) - 1;
  for (int32_t part = 0; part < count; ++part) {
    const std::string path = PartPath(version, part);
    const Result<ShardHeader> header = ReadShardHeader(path);
    if (!header.ok()) return Error{ErrorKind::kUnavailable, header.error().message};
    const DoneShard& expected = done[static_cast<std::size_t>(part) + 1];
    std::error_code error;
    const bool same = std::filesystem::file_size(path, error) == expected.bytes && !error &&
                      header->checksum == expected.checksum && header->version == version &&
                      header->shard == part && header->shards == count &&
                      header->identity.model == identity.model;
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
    return Error{ErrorKind::kInvalid, PathOf(version) + " has no parts with the rows of a table"};
  }
  for (int32_t part = 0; part < count; ++part) {
    const Share of_part = ShareOf(part, count, wanted.all_rows);
    const int64_t begin = std::max(of_part.begin, wanted.begin);
    const int64_t end = std::min(of_part.end, wanted.end);
    if (begin >= end) continue;
    const std::string path = PartPath(version, part);
    const Result<LoadedShard> loaded = ReadShard(
        path, identity, {static_cast<uint64_t>(of_part.size() * wanted.row_values)}, count);
    if (!loaded.ok()) {
      return Error{ErrorKind::kInvalid, loaded.error().message + "; put a copy back, or remove " +
                                            PathOf(version) +
                                            " to go on from the checkpoint before"};
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
