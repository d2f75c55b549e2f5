#pragma once

// Makes the content of an existing file unreadable: mounts /proc/self/mem over the file, so that a
// read at its start returns an I/O error. Needs root.

#include <string>
#include <sys/mount.h>
#include <utility>

namespace ringmaster::trainer {

class Unreadable {
 public:
  explicit Unreadable(std::string path)
      : path_(std::move(path)),
        mounted_(::mount("/proc/self/mem", path_.c_str(), "none", MS_BIND, nullptr) == 0) {}
  ~Unreadable() { Heal(); }
  Unreadable(const Unreadable&) = delete;
  Unreadable& operator=(const Unreadable&) = delete;

  bool mounted() const { return mounted_; }
  // Makes the content readable again, even while another process has the file open.
  void Heal() {
    if (std::exchange(mounted_, false)) ::umount2(path_.c_str(), MNT_DETACH);
  }

 private:
  const std::string path_;
  bool mounted_ = false;
};

}  // namespace ringmaster::trainer
