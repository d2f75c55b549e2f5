#include "worker/trainer/checkpoint/checkpoint_paths.h"

#include <cerrno>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>

#include "common/control/checkpoint_path.h"

namespace ringmaster::trainer {
namespace {

namespace fs = std::filesystem;

Error NotRestorable(const CheckpointPlace& place, const std::string& why) {
  const std::string what = place.from_job.empty() ? "--restore-path=" + place.from_path
                                                  : "--restore-job=" + place.from_job;
  return {ErrorKind::kInvalid,
          "cannot start from " + what + " (spec.checkpoint.restoreFrom): " + why};
}

// The newest complete checkpoint in a folder and its completion time.
struct Newest {
  StateVersion version;
  std::chrono::system_clock::time_point when;
};

Result<std::optional<Newest>> NewestIn(const CheckpointFolder& folder) {
  const Result<std::vector<StateVersion>> complete = folder.Complete();
  if (!complete.ok()) return complete.error();
  if (complete->empty()) return std::optional<Newest>();
  const auto when = folder.CompletedAt(complete->front());
  if (!when.ok()) return when.error();
  if (!*when) return std::optional<Newest>();  // its writer has just removed it
  return std::optional(Newest{.version = complete->front(), .when = **when});
}

// Opens the path component by component, without following links.
Result<fs::path> Below(const CheckpointPlace& place) {
  fs::path path = place.volume;
  for (const fs::path& part : fs::path(place.from_path)) {
    if (part.empty() || part == ".") continue;
    if (part == ".." || part.is_absolute()) {
      return NotRestorable(place, "name a folder below the volume, such as digits/1.1-500");
    }
    path /= part;
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      if (errno == ENOENT || errno == ENOTDIR) {
        return NotRestorable(place, "there is no " + path.string());
      }
      return Error{ErrorKind::kUnavailable,
                   "while reading " + path.string() + ": " +
                       std::error_code(errno, std::generic_category()).message()};
    }
    if (S_ISLNK(status.st_mode)) {
      return NotRestorable(place, path.string() + " is a link; name its target");
    }
    if (!S_ISDIR(status.st_mode)) return NotRestorable(place, path.string() + " is not a folder");
  }
  return path;
}

}  // namespace

std::string CheckpointPlace::Own() const {
  return uid.empty() ? volume : control::OwnCheckpoints(volume, ns, name, uid);
}

Result<std::optional<OtherCheckpoints>> FindOfJob(const CheckpointPlace& place,
                                                  const std::string& name) {
  const std::string all = place.volume + "/" + place.ns + "/" + name;
  std::error_code error;
  std::optional<OtherCheckpoints> found;
  std::chrono::system_clock::time_point when;
  fs::directory_iterator entry(all, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code unknown;
    const fs::file_status status = entry->symlink_status(unknown);
    if (!fs::is_directory(status)) continue;
    if (name == place.name && entry->path().filename() == place.uid) continue;
    const CheckpointFolder folder(entry->path());
    const Result<std::optional<Newest>> newest = NewestIn(folder);
    if (!newest.ok()) return newest.error();
    if (!newest->has_value() || (found && (*newest)->when < when)) continue;
    when = (*newest)->when;
    found = OtherCheckpoints{.folder = folder, .newest = (*newest)->version};
  }
  if (error && error != std::errc::no_such_file_or_directory) {
    return Error{ErrorKind::kUnavailable, "while reading " + all + ": " + error.message()};
  }
  return found;
}

Result<OtherCheckpoints> FindToBeginWith(const CheckpointPlace& place) {
  if (!place.from_job.empty()) {
    const Result<std::optional<OtherCheckpoints>> found = FindOfJob(place, place.from_job);
    if (!found.ok()) return found.error();
    if (*found) return **found;
    return NotRestorable(place, "no other job of this name in namespace " + place.ns +
                                    " has a complete checkpoint on the volume; correct the name or "
                                    "remove restoreFrom to start from the first step");
  }
  const Result<fs::path> path = Below(place);
  if (!path.ok()) return path.error();
  const auto version = ParseCheckpointName(path->filename().string());
  const CheckpointFolder folder(version ? path->parent_path() : *path);
  if (version) {
    const Result<bool> complete = folder.IsComplete(*version);
    if (!complete.ok()) return complete.error();
    if (!*complete) return NotRestorable(place, path->string() + " is not a complete checkpoint");
    return OtherCheckpoints{.folder = folder, .newest = *version, .chosen = *version};
  }
  const Result<std::optional<Newest>> newest = NewestIn(folder);
  if (!newest.ok()) return newest.error();
  if (!newest->has_value()) {
    return NotRestorable(place, path->string() + " has no complete checkpoint");
  }
  return OtherCheckpoints{.folder = folder, .newest = (*newest)->version};
}

Result<LoadedShard> LoadOther(const OtherCheckpoints& other, const StateIdentity& identity,
                              const std::vector<uint64_t>& parts,
                              std::map<StateVersion, std::string>& damaged) {
  if (other.chosen) {
    // The rows of this version were found damaged (StateKeeper::Distrust).
    if (const auto known = damaged.find(*other.chosen); known != damaged.end()) {
      return Damaged(known->second);
    }
    Result<LoadedShard> loaded = other.folder.Load(*other.chosen, identity, parts);
    const bool gone = !loaded.ok() && loaded.error().kind == ErrorKind::kNotFound;
    return gone ? Error{ErrorKind::kInvalid, loaded.error().message} : std::move(loaded);
  }
  Result<std::optional<LoadedShard>> newest = other.folder.LoadNewest({}, identity, parts, damaged);
  if (!newest.ok()) return newest.error();
  if (*newest) return **std::move(newest);
  // The checkpoint's writer has completed a newer checkpoint and just removed this one.
  return Error{ErrorKind::kUnavailable, other.folder.path() + " changed while it was read"};
}

}  // namespace ringmaster::trainer
