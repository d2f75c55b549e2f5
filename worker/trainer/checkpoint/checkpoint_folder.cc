#include "worker/trainer/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <random>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

namespace fs = std::filesystem;

constexpr char kShardFile[] = "shard-0";
constexpr std::string_view kWriting = ".writing-";
constexpr std::string_view kRemoving = ".removing-";
constexpr mode_t kFolderMode = 0775;
constexpr std::size_t kMostShards = 1024;

// Takes a number without sign or leading zeros off the front of `text`.
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

// The version in the name of what is under way or left behind.
std::optional<StateVersion> VersionOfLeftover(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  return ParseCheckpointName(name.substr(0, name.find('~')));
}

std::string Unique() {
  std::random_device random;
  return std::to_string(random()) + std::to_string(random());
}

std::vector<std::string> NamesIn(const std::string& folder, std::error_code& error) {
  std::vector<std::string> names;
  fs::directory_iterator entry(folder, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

std::string ReadAtMost(const std::string& path, std::size_t limit) {
  std::ifstream file(path, std::ios::binary);
  std::string text(limit + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return text;
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
  const Error damaged{ErrorKind::kUnavailable, "it does not list a checkpoint's shards"};
  if (text.empty() || text.size() > kMaxDoneBytes) return damaged;
  std::vector<DoneShard> shards;
  while (!text.empty()) {
    const auto shard = TakeNumber(text);
    if (!shard || *shard != static_cast<int64_t>(shards.size()) || shards.size() >= kMostShards ||
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

Result<CheckpointFolder> CheckpointFolder::Open(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error || ::access(path.c_str(), R_OK | W_OK | X_OK) != 0) {
    return Error{ErrorKind::kInvalid,
                 "while opening the checkpoint folder " + path + ": " +
                     (error ? error.message() : "it cannot be read and written") +
                     "; mount a volume there that this user may write to, shared by all workers"};
  }
  return CheckpointFolder(path);
}

std::string CheckpointFolder::PathOf(const StateVersion& version) const {
  return path_ + "/" + CheckpointName(version);
}

bool CheckpointFolder::IsDone(const StateVersion& version) const {
  std::error_code error;
  return fs::is_regular_file(PathOf(version) + "/" + kDoneFile, error);
}

Result<std::vector<StateVersion>> CheckpointFolder::Complete() const {
  std::error_code error;
  std::vector<StateVersion> complete;
  for (const std::string& name : NamesIn(path_, error)) {
    const auto version = ParseCheckpointName(name);
    if (version && IsDone(*version)) complete.push_back(*version);
  }
  if (error) {
    return Error{ErrorKind::kUnavailable,
                 "while reading the checkpoint folder " + path_ + ": " + error.message()};
  }
  std::sort(complete.rbegin(), complete.rend());
  return complete;
}

Result<std::vector<DoneShard>> CheckpointFolder::ReadDone(const StateVersion& version) const {
  const std::string path = PathOf(version) + "/" + kDoneFile;
  Result<std::vector<DoneShard>> done = DecodeDone(ReadAtMost(path, kMaxDoneBytes));
  if (!done.ok()) return Error{done.error().kind, path + ": " + done.error().message};
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
    return Error{ErrorKind::kUnavailable, path + ": it is not the file that DONE speaks of"};
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
        LogWarn("Passed over a damaged checkpoint",
                {{"reason", reason}, {"uses_instead", PathOf(version)}});
      }
      return std::optional(*std::move(loaded));
    }
    if (loaded.error().kind == ErrorKind::kInvalid) return loaded.error();
    // Its writer may have removed it meanwhile: then there are newer ones, which came first.
    if (!IsDone(version)) continue;
    damaged[version] = loaded.error().message;
    passed_over.push_back(loaded.error().message);
  }
  if (passed_over.empty()) return std::optional<LoadedShard>();
  if (than != StateVersion{}) {
    for (const std::string& reason : passed_over) {
      LogWarn("Passed over a damaged checkpoint",
              {{"reason", reason}, {"uses_instead", "what it has"}});
    }
    return std::optional<LoadedShard>();
  }
  return Error{ErrorKind::kInvalid,
               "all " + std::to_string(passed_over.size()) + " complete checkpoints in " + path_ +
                   " are damaged, the newest one because: " + passed_over.front() +
                   "; put a copy back, or empty the folder to begin from the first step"};
}

Result<DoneShard> CheckpointFolder::Write(const ShardHeader& header, const TrainableState& state,
                                          const std::stop_token& stop) const {
  const std::string name = CheckpointName(header.version);
  const std::string home = PathOf(header.version);
  if (IsDone(header.version)) return Error{ErrorKind::kAlreadyExists, home + " is complete"};
  const std::string aside_name = std::string(kWriting) + name + "~" + Unique();
  const std::string aside = path_ + "/" + aside_name;
  const auto failed = [&](const Error& error) {
    std::error_code ignored;
    fs::remove_all(aside, ignored);
    return error;
  };
  if (::mkdir(aside.c_str(), kFolderMode) != 0) {
    return Error{
        ErrorKind::kUnavailable,
        "while making " + aside + ": " + std::error_code(errno, std::generic_category()).message()};
  }
  ::chmod(aside.c_str(), kFolderMode);
  const Result<uint64_t> bytes = WriteShard(aside + "/" + kShardFile, header, state, stop);
  if (!bytes.ok()) return failed(bytes.error());
  if (Result<void> synced = SyncFolder(aside); !synced.ok()) return failed(synced.error());
  std::error_code error;
  if (fs::exists(home, error)) Remove(name);  // of a writer that died before its DONE
  fs::rename(aside, home, error);
  if (error) {
    return failed({ErrorKind::kUnavailable, "while renaming " + aside + ": " + error.message()});
  }
  if (Result<void> synced = SyncFolder(path_); !synced.ok()) return synced.error();
  return DoneShard{.shard = 0, .bytes = *bytes, .checksum = header.checksum};
}

Result<void> CheckpointFolder::MarkDone(const StateVersion& version,
                                        const std::vector<DoneShard>& shards) const {
  const std::string home = PathOf(version);
  Result<void> written = WriteTextDurably(home + "/" + kDoneFile, EncodeDone(shards));
  if (!written.ok()) return written;
  return SyncFolder(home);
}

void CheckpointFolder::Retain(const StateVersion& own, int keep) const {
  const Result<std::vector<StateVersion>> complete = Complete();
  if (!complete.ok()) return;
  for (std::size_t i = static_cast<std::size_t>(std::max(1, keep)); i < complete->size(); ++i) {
    if ((*complete)[i] < own) Remove(CheckpointName((*complete)[i]));
  }
  std::error_code error;
  for (const std::string& name : NamesIn(path_, error)) {
    const auto removing = VersionOfLeftover(name, kRemoving);
    const auto writing = VersionOfLeftover(name, kWriting);
    const auto whole = ParseCheckpointName(name);
    const bool stale = (removing && *removing < own) || (writing && *writing < own) ||
                       (whole && *whole < own && !IsDone(*whole));
    if (stale) Remove(name);
  }
}

// Renamed first: what is half removed must not look like a checkpoint.
void CheckpointFolder::Remove(const std::string& name) const {
  std::error_code error;
  std::string target = path_ + "/" + name;
  if (!name.starts_with('.')) {
    const std::string aside = path_ + "/" + std::string(kRemoving) + name + "~" + Unique();
    fs::rename(target, aside, error);
    if (!error) target = aside;
  }
  fs::remove_all(target, error);
  if (error) {
    LogWarn("Could not remove an old checkpoint", {{"path", target}, {"reason", error.message()}});
  }
}

}  // namespace ringmaster::trainer
