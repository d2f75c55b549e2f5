#pragma once

// A temporary folder of a bench, removed by its destructor.

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace ringmaster::bench {

class ScratchFolder {
 public:
  // `prefix` is a path, to which a unique name is appended. Throws std::system_error.
  explicit ScratchFolder(const std::string& prefix) : path_(prefix + "-XXXXXX") {
    if (::mkdtemp(path_.data()) != nullptr) return;
    throw std::system_error(errno, std::generic_category(), "while creating " + path_);
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace ringmaster::bench
