#include "worker/agent/app/own_checkpoints.h"

#include <cerrno>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <vector>

#include "common/control/checkpoint_path.h"

namespace ringmaster::agent {
namespace {

// Limits the depth, because each level uses an open file descriptor. A checkpoint has two levels.
constexpr int kMostLevels = 32;
// Limits the number of names in memory, because a folder may contain any number of entries.
constexpr std::size_t kNamesAtOnce = 1024;
// This file is removed first, so that a partly removed folder is not mistaken for a checkpoint.
constexpr char kFirstToGo[] = "DONE";
constexpr int kOpenFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

class Folder {
 public:
  explicit Folder(int fd) : fd_(fd) {}
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

 private:
  const int fd_;
};

Error CannotRemove(const std::string& path, int code) {
  const bool never = code == ELOOP || code == ENOTDIR || code == ENAMETOOLONG;
  const std::string why = code == ELOOP || code == ENOTDIR
                              ? "it is not a folder (links are not followed)"
                              : std::error_code(code, std::generic_category()).message();
  return {never ? ErrorKind::kInvalid : ErrorKind::kUnavailable,
          "while removing " + path + ": " + why};
}

Error ForeignFileSystem(const std::string& path) {
  return {ErrorKind::kInvalid, "while removing " + path + ": another file system is mounted there"};
}

bool IsOneStep(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

class FolderRemover {
 public:
  explicit FolderRemover(dev_t device) : device_(device) {}

  // Removes everything in the folder, but not the folder itself.
  Result<void> Empty(const Folder& folder, const std::string& path, int levels_left) {
    if (levels_left == 0) {
      return Error{ErrorKind::kInvalid, "while removing " + path + ": it is nested too deeply"};
    }
    if (Result<void> first = RemoveEntry(folder, kFirstToGo, path, levels_left); !first.ok()) {
      return first;
    }
    while (true) {
      const Result<std::vector<std::string>> names = SomeNames(folder, path);
      if (!names.ok()) return names.error();
      if (names->empty()) return {};
      for (const std::string& name : *names) {
        if (Result<void> gone = RemoveEntry(folder, name, path, levels_left); !gone.ok()) {
          return gone;
        }
      }
    }
  }

  const RemovedCheckpoints& removed() const { return removed_; }

 private:
  Result<void> RemoveEntry(const Folder& folder, const std::string& name, const std::string& path,
                           int levels_left) {
    const std::string below = path + "/" + name;
    struct stat status {};
    if (::fstatat(folder.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno == ENOENT ? Result<void>() : CannotRemove(below, errno);
    }
    if (status.st_dev != device_) return ForeignFileSystem(below);
    if (S_ISDIR(status.st_mode)) return RemoveFolder(folder, name, below, levels_left);
    if (::unlinkat(folder.fd(), name.c_str(), 0) != 0) {
      return errno == ENOENT ? Result<void>() : CannotRemove(below, errno);
    }
    ++removed_.files;
    if (S_ISREG(status.st_mode)) removed_.bytes += status.st_size;
    return {};
  }

  Result<void> RemoveFolder(const Folder& parent, const std::string& name, const std::string& path,
                            int levels_left) {
    const Folder folder(::openat(parent.fd(), name.c_str(), kOpenFlags));
    if (!folder.open()) return errno == ENOENT ? Result<void>() : CannotRemove(path, errno);
    if (Result<void> empty = Empty(folder, path, levels_left - 1); !empty.ok()) return empty;
    if (::unlinkat(parent.fd(), name.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
      return CannotRemove(path, errno);
    }
    return {};
  }

  static Result<std::vector<std::string>> SomeNames(const Folder& folder, const std::string& path) {
    // Open the folder again: closedir() closes `fd`, and the stream must start at the first entry.
    const int fd = ::openat(folder.fd(), ".", kOpenFlags);
    if (fd < 0) return CannotRemove(path, errno);
    const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd), ::closedir);
    if (stream == nullptr) {
      const int code = errno;
      ::close(fd);
      return CannotRemove(path, code);
    }
    std::vector<std::string> names;
    errno = 0;
    while (names.size() < kNamesAtOnce) {
      const dirent* entry = ::readdir(stream.get());
      if (entry == nullptr) break;
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (names.size() < kNamesAtOnce && errno != 0) return CannotRemove(path, errno);
    return names;
  }

  const dev_t device_;
  RemovedCheckpoints removed_;
};

}  // namespace

Result<RemovedCheckpoints> RemoveOwnCheckpoints(const CheckpointOwner& owner) {
  for (const std::string* name : {&owner.ns, &owner.job, &owner.job_uid}) {
    if (!IsOneStep(*name)) {
      return Error{ErrorKind::kInvalid, "cannot determine the folder of the job's checkpoints: \"" +
                                            *name + "\" is not a valid folder name"};
    }
  }
  std::string path = owner.volume;
  auto folder = std::make_unique<Folder>(::open(path.c_str(), kOpenFlags));
  if (!folder->open()) return CannotRemove(path, errno);
  for (const std::string* name : {&owner.ns, &owner.job}) {
    path += "/" + *name;
    auto below = std::make_unique<Folder>(::openat(folder->fd(), name->c_str(), kOpenFlags));
    if (!below->open() && errno == ENOENT) return RemovedCheckpoints{};
    if (!below->open()) return CannotRemove(path, errno);
    folder = std::move(below);
  }
  path = control::OwnCheckpoints(owner.volume, owner.ns, owner.job, owner.job_uid);
  const Folder own(::openat(folder->fd(), owner.job_uid.c_str(), kOpenFlags));
  if (!own.open()) {
    return errno == ENOENT ? Result<RemovedCheckpoints>(RemovedCheckpoints{})
                           : CannotRemove(path, errno);
  }
  struct stat parent {};
  struct stat status {};
  if (::fstat(folder->fd(), &parent) != 0 || ::fstat(own.fd(), &status) != 0) {
    return CannotRemove(path, errno);
  }
  if (status.st_dev != parent.st_dev) return ForeignFileSystem(path);
  FolderRemover remover(status.st_dev);
  if (Result<void> empty = remover.Empty(own, path, kMostLevels); !empty.ok()) return empty.error();
  if (::unlinkat(folder->fd(), owner.job_uid.c_str(), AT_REMOVEDIR) != 0 && errno != ENOENT) {
    return CannotRemove(path, errno);
  }
  RemovedCheckpoints removed = remover.removed();
  removed.existed = true;
  return removed;
}

}  // namespace ringmaster::agent
