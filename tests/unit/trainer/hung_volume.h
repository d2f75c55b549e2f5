#pragma once

// Makes a folder hang, like a volume whose server does not respond: mounts a FUSE file system that
// no process serves over the folder. Needs root and /dev/fuse.

#include <fcntl.h>
#include <string>
#include <sys/mount.h>
#include <unistd.h>
#include <utility>

namespace ringmaster::trainer {

class HungVolume {
 public:
  explicit HungVolume(std::string path)
      : path_(std::move(path)), server_(::open("/dev/fuse", O_RDWR | O_CLOEXEC)) {
    const std::string options =
        "fd=" + std::to_string(server_) + ",rootmode=40000,user_id=0,group_id=0";
    mounted_ = ::mount("hung", path_.c_str(), "fuse", 0, options.c_str()) == 0;
  }
  ~HungVolume() { Heal(); }
  HungVolume(const HungVolume&) = delete;
  HungVolume& operator=(const HungVolume&) = delete;

  bool mounted() const { return mounted_; }
  // Calls that hang return an error, and the folder is as before.
  void Heal() {
    if (server_ >= 0) ::close(std::exchange(server_, -1));
    if (std::exchange(mounted_, false)) ::umount2(path_.c_str(), MNT_DETACH);
  }

 private:
  const std::string path_;
  int server_;
  bool mounted_ = false;
};

}  // namespace ringmaster::trainer
