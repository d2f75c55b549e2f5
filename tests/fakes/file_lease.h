#pragma once

// A file whose readers have to wait: so that a test can stop a copy where it wants to
// look at it. Used by the tests of the data cache. Linux; the file's file system needs leases
// (ext4, xfs and tmpfs have them).

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace ringmaster {

// Held until End() or the destructor. The kernel ends it by itself after
// /proc/sys/fs/lease-break-time (45 s) of somebody's waiting.
class FileLease {
 public:
  explicit FileLease(const std::filesystem::path& file)
      : descriptor_(open(file.c_str(), O_RDWR | O_CLOEXEC)) {
    // The kernel's word that somebody wants the file; by default it ends the process.
    held_ =
        fcntl(descriptor_, F_SETSIG, SIGURG) == 0 && fcntl(descriptor_, F_SETLEASE, F_WRLCK) == 0;
  }
  ~FileLease() { End(); }
  FileLease(const FileLease&) = delete;
  FileLease& operator=(const FileLease&) = delete;

  bool held() const { return held_; }
  void End() {
    if (descriptor_ >= 0) close(descriptor_);
    descriptor_ = -1;
  }

 private:
  int descriptor_;
  bool held_ = false;
};

}  // namespace ringmaster
