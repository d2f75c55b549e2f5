#include "worker/trainer/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hex.h"
#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

namespace fs = std::filesystem;

constexpr char kShardFile[] = "shard-0";
constexpr std::string_view kWriting = ".writing-";
constexpr std::string_view kRemoving = ".removing-";
constexpr mode_t kFolderMode = 0775;

// Removes a number without sign or leading zeros from the front of `text`; returns the number.
std::optional<int64_t> TakeNumber(std::string_view& text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  if (text.empty() || text.front() == '-') return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || (text.front() == '0' && stop != text.data() + 1)) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  return number;
}

bool Take(std::string_view& text, char expected) {
  if (text.empty() || text.front() != expected) return false;
  text.remove_prefix(1);
  return true;
}

// Parses the version in the name of a temporary folder.
std::optional<StateVersion> VersionOfLeftover(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  return ParseCheckpointName(name.substr(0, name.find('~')));
}

std::string Unique() {
  std::random_device random;
  return std::to_string(random()) + std::to_string(random());
}

Result<std::vector<std::string>> NamesIn(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (!error) return names;
  return Error{ErrorKind::kUnavailable, "while reading " + folder + ": " + error.message()};
}

// Creates folders that the volume's group may write to, regardless of this process's umask.
std::error_code MakeFolders(const std::string& path) {
  fs::path below;
  for (const fs::path& part : fs::path(path)) {
    below /= part;
    if (::mkdir(below.c_str(), kFolderMode) == 0) {
      ::chmod(below.c_str(), kFolderMode);
      continue;
    }
    const std::error_code error{errno, std::generic_category()};
    std::error_code ignored;
    if (error != std::errc::file_exists && !fs::is_directory(below, ignored)) return error;
  }
  return {};
}

}  // namespace

std::string CheckpointName(const StateVersion& version) {
  return std::to_string(version.epoch.term) + "." + std::to_string(version.epoch.number) + "-" +
         std::to_string(version.step);
}

std::optional<StateVersion> ParseCheckpointName(std::string_view name) {
  const auto term = TakeNumber(name);
  if (!term || !Take(name, '.')) return std::nullopt;
  const auto number = TakeNumber(name);
  if (!number || !Take(name, '-')) return std::nullopt;
  const auto step = TakeNumber(name);
  if (!step || !name.empty()) return std::nullopt;
  return StateVersion{.epoch = {.term = *term, .number = *number}, .step = *step};
}

std::string EncodeDone(const std::vector<DoneShard>& shards) {
  std::string text;
  for (const DoneShard& shard : shards) {
    text += std::to_string(shard.shard) + " " + std::to_string(shard.bytes) + " " +
            HexOf(shard.checksum) + "\n";
  }
  return text;
}

Result<std::vector<DoneShard>> DecodeDone(std::string_view text) {
  const Error damaged = Damaged("it does not list the shards of a checkpoint");
  if (text.empty() || text.size() > kMaxDoneBytes) return damaged;
  std::vector<DoneShard> shards;
  while (!text.empty()) {
    const auto shard = TakeNumber(text);
    if (!shard || *shard != static_cast<int64_t>(shards.size()) || shards.size() >= kMaxShards ||
        !Take(text, ' ')) {
      return damaged;
    }
    const auto bytes = TakeNumber(text);
    if (!bytes || !Take(text, ' ') || text.size() < 17) return damaged;
    uint64_t checksum = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + 16, checksum, 16);
    if (error != std::errc() || stop != text.data() + 16 || text[16] != '\n') return damaged;
    text.remove_prefix(17);
    shards.push_back({.shard = static_cast<int32_t>(*shard),
                      .bytes = static_cast<uint64_t>(*bytes),
                      .checksum = checksum});
  }
  return shards;
}

Result<void> CheckpointFolder::Make() const {
  std::error_code error = MakeFolders(path_);
  if (!error && ::access(path_.c_str(), R_OK | W_OK | X_OK) != 0) {
    error = {errno, std::generic_category()};
  }
  if (!error) return {};
  const bool never = error == std::errc::not_a_directory || error == std::errc::filename_too_long ||
                     error == std::errc::too_many_symbolic_link_levels;
  return Error{never ? ErrorKind::kInvalid : ErrorKind::kUnavailable,
               "while opening the checkpoint folder " + path_ + ": " + error.message() +
                   "; mount a volume that all workers share and this user may write to"};
}

std::string CheckpointFolder::PathOf(const StateVersion& version) const {
  return path_ + "/" + CheckpointName(version);
}

Result<bool> CheckpointFolder::IsComplete(const StateVersion& version) const {
  const Result<std::optional<uint64_t>> done = FileBytes(PathOf(version) + "/" + kDoneFile);
  if (!done.ok()) return done.error();
  return done->has_value();
}

Result<std::vector<StateVersion>> CheckpointFolder::Complete() const {
  const Result<std::vector<std::string>> names = NamesIn(path_);
  if (!names.ok()) return names.error();
  std::vector<StateVersion> complete;
  for (const std::string& name : *names) {
    const auto version = ParseCheckpointName(name);
    std::error_code unknown;
    if (!version || fs::is_symlink(PathOf(*version), unknown)) continue;
    const Result<bool> done = IsComplete(*version);
    if (!done.ok()) return done.error();
    if (*done) complete.push_back(*version);
  }
  std::sort(complete.rbegin(), complete.rend());
  return complete;
}

Result<std::optional<std::chrono::system_clock::time_point>> CheckpointFolder::CompletedAt(
    const StateVersion& version) const {
  using Time = std::chrono::system_clock::time_point;
  struct stat status {};
  const std::string done = PathOf(version) + "/" + kDoneFile;
  if (::stat(done.c_str(), &status) == 0) {
    const auto since_epoch = std::chrono::seconds(status.st_mtim.tv_sec) +
                             std::chrono::nanoseconds(status.st_mtim.tv_nsec);
    return std::optional(Time(std::chrono::duration_cast<Time::duration>(since_epoch)));
  }
  if (errno == ENOENT) return std::optional<Time>();
  return Error{
      ErrorKind::kUnavailable,
      "while reading " + done + ": " + std::error_code(errno, std::generic_category()).message()};
}

Result<int64_t> CheckpointFolder::BytesOfNewest(const std::vector<StateVersion>& complete,
                                                int keep) const {
  int64_t bytes = 0;
  for (const StateVersion& version : complete) {
    if (keep-- <= 0) break;
    const Result<std::vector<DoneShard>> done = ReadDone(version);
    if (!done.ok()) return done.error();
    for (const DoneShard& shard : *done) bytes += static_cast<int64_t>(shard.bytes);
  }
  return bytes;
}

Result<std::vector<DoneShard>> CheckpointFolder::ReadDone(const StateVersion& version) const {
  const std::string path = PathOf(version) + "/" + kDoneFile;
  const Result<std::string> text = ReadText(path, kMaxDoneBytes);
  if (!text.ok()) return text.error();
  Result<std::vector<DoneShard>> done = DecodeDone(*text);
  if (!done.ok()) return Damaged(path + ": " + done.error().message);
  return done;
}

Result<LoadedShard> CheckpointFolder::Load(const StateVersion& version,
                                           const StateIdentity& identity,
                                           const std::vector<uint64_t>& parts) const {
  const Result<std::vector<DoneShard>> done = ReadDone(version);
  if (!done.ok()) return done.error();
  const std::string path = PathOf(version) + "/" + kShardFile;
  Result<LoadedShard> loaded = ReadShard(path, identity, parts);
  if (!loaded.ok()) return loaded.error();
  const DoneShard expected{.shard = 0, .bytes = loaded->bytes, .checksum = loaded->header.checksum};
  if (done->front() != expected || loaded->header.version != version) {
    return Damaged(path + ": it is not the file that DONE refers to");
  }
  const Result<void> sound = CheckParts(version, identity, *done);
  if (!sound.ok()) return sound.error();
  return loaded;
}

Result<std::optional<LoadedShard>> CheckpointFolder::LoadNewest(
    const StateVersion& than, const StateIdentity& identity, const std::vector<uint64_t>& parts,
    std::map<StateVersion, std::string>& damaged) const {
  const Result<std::vector<StateVersion>> complete = Complete();
  if (!complete.ok()) return complete.error();
  std::vector<std::string> passed_over;
  for (const StateVersion& version : *complete) {
    if (!(than < version)) break;
    if (const auto known = damaged.find(version); known != damaged.end()) {
      if (than == StateVersion{}) passed_over.push_back(known->second);
      continue;
    }
    Result<LoadedShard> loaded = Load(version, identity, parts);
    if (loaded.ok()) {
      for (const std::string& reason : passed_over) {
        LogWarn("Skipped a damaged checkpoint",
                {{"reason", reason}, {"uses_instead", PathOf(version)}});
      }
      return std::optional(*std::move(loaded));
    }
    // A checkpoint is damaged only if its content is wrong or a required file is missing.
    if (!IsDamage(loaded.error()) && loaded.error().kind != ErrorKind::kNotFound) {
      return loaded.error();
    }
    // Its writer may have just removed this checkpoint; newer checkpoints were tried already.
    const Result<bool> there = IsComplete(version);
    if (!there.ok()) return there.error();
    if (!*there) continue;
    damaged[version] = loaded.error().message;
    passed_over.push_back(loaded.error().message);
  }
  if (passed_over.empty()) return std::optional<LoadedShard>();
  if (than != StateVersion{}) {
    for (const std::string& reason : passed_over) {
      LogWarn("Skipped a damaged checkpoint",
              {{"reason", reason}, {"uses_instead", "the rank's own state"}});
    }
    return std::optional<LoadedShard>();
  }
  return Error{ErrorKind::kInvalid,
               "all " + std::to_string(passed_over.size()) + " complete checkpoints in " + path_ +
                   " are damaged; the latest one: " + passed_over.front() +
                   "; restore a copy, or empty the folder to start from the first step"};
}

Result<CheckpointDraft> CheckpointFolder::Write(const ShardHeader& header,
                                                const TrainableState& state,
                                                const std::stop_token& stop,
                                                std::atomic<uint64_t>* taken) const {
  const StateVersion& version = header.version;
  const Result<bool> complete = IsComplete(version);
  if (!complete.ok()) return complete.error();
  if (*complete) return Error{ErrorKind::kAlreadyExists, PathOf(version) + " is complete"};
  if (Result<void> made = Make(); !made.ok()) return made.error();
  RemoveLeftovers(version);
  CheckpointDraft draft{
      .version = version,
      .aside = path_ + "/" + std::string(kWriting) + CheckpointName(version) + "~" + Unique(),
      .shards = {}};
  if (::mkdir(draft.aside.c_str(), kFolderMode) != 0) {
    return Error{ErrorKind::kUnavailable,
                 "while creating " + draft.aside + ": " +
                     std::error_code(errno, std::generic_category()).message()};
  }
  ::chmod(draft.aside.c_str(), kFolderMode);
  const Result<uint64_t> bytes =
      WriteShard(draft.aside + "/" + kShardFile, header, state, stop, taken);
  if (!bytes.ok()) {
    Discard(draft);
    return bytes.error();
  }
  draft.shards.push_back({.shard = 0, .bytes = *bytes, .checksum = header.checksum});
  return draft;
}

Result<void> CheckpointFolder::Publish(const CheckpointDraft& draft) const {
  const std::string list = EncodeDone(draft.shards);
  if (!DecodeDone(list).ok()) {
    return Error{ErrorKind::kInvalid, "while completing " + draft.aside + ": a checkpoint of " +
                                          std::to_string(draft.shards.size()) +
                                          " files could not be loaded; use fewer ranks"};
  }
  Result<void> step = WriteTextDurably(draft.aside + "/" + kDoneFile, list);
  if (step.ok()) step = SyncFolder(draft.aside);
  if (!step.ok()) return step;
  const std::string home = PathOf(draft.version);
  std::error_code error;
  fs::rename(draft.aside, home, error);
  if (error == std::errc::directory_not_empty || error == std::errc::file_exists) {
    const Result<bool> complete = IsComplete(draft.version);
    if (!complete.ok()) return complete.error();
    if (*complete) return Error{ErrorKind::kAlreadyExists, home + " is complete"};
    Remove(CheckpointName(draft.version));  // a folder without DONE is not a checkpoint
    fs::rename(draft.aside, home, error);
  }
  if (error) {
    return Error{ErrorKind::kUnavailable, "while renaming " + draft.aside + ": " + error.message()};
  }
  return SyncFolder(path_);
}

void CheckpointFolder::Discard(const CheckpointDraft& draft) const {
  Remove(fs::path(draft.aside).filename());
}

void CheckpointFolder::Retain(const StateVersion& own, int keep) const {
  const Result<std::vector<StateVersion>> complete = Complete();
  if (!complete.ok()) return;
  for (std::size_t i = static_cast<std::size_t>(std::max(1, keep)); i < complete->size(); ++i) {
    if ((*complete)[i] < own) Remove(CheckpointName((*complete)[i]));
  }
  RemoveLeftovers(own);
}

void CheckpointFolder::RemoveLeftovers(const StateVersion& below) const {
  const Result<std::vector<StateVersion>> complete = Complete();
  const Result<std::vector<std::string>> names = NamesIn(path_);
  if (!complete.ok() || !names.ok()) return;
  for (const std::string& name : *names) {
    const auto removing = VersionOfLeftover(name, kRemoving);
    const auto writing = VersionOfLeftover(name, kWriting);
    const auto whole = ParseCheckpointName(name);
    const bool stale = (removing && *removing < below) || (writing && *writing < below) ||
                       (whole && *whole < below && !std::ranges::count(*complete, *whole));
    if (stale) Remove(name);
  }
}

// Renames the folder first, because a partly removed checkpoint must not look complete, and its
// writer, which may be alive, must not publish it.
void CheckpointFolder::Remove(const std::string& name) const {
  std::error_code error;
  std::string target = path_ + "/" + name;
  if (!name.starts_with(kRemoving)) {
    const std::size_t begin = name.starts_with(kWriting) ? kWriting.size() : 0;
    const std::string aside =
        path_ + "/" + std::string(kRemoving) + name.substr(begin) + "~" + Unique();
    fs::rename(target, aside, error);
    if (error == std::errc::no_such_file_or_directory) return;
    if (!error) target = aside;
  }
  if (!error) fs::remove_all(target, error);
  if (error) {
    LogWarn("Failed to remove an old checkpoint", {{"path", target}, {"reason", error.message()}});
  }
}

}  // namespace ringmaster::trainer
