#pragma once

// A source folder and a cache folder for one test. The destructor removes them.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

#include "worker/agent/config/config.h"

namespace ringmaster::agent {

class DataCacheFolders {
 public:
  DataCacheFolders() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "ringmaster-data-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) std::abort();
    root_ = pattern;
    std::filesystem::create_directory(source());
    std::filesystem::create_directory(cache());
  }
  ~DataCacheFolders() { std::filesystem::remove_all(root_); }
  DataCacheFolders(const DataCacheFolders&) = delete;
  DataCacheFolders& operator=(const DataCacheFolders&) = delete;

  std::filesystem::path root() const { return root_; }
  std::filesystem::path source() const { return root_ / "source"; }
  std::filesystem::path cache() const { return root_ / "cache"; }
  DataCacheSettings Settings(const std::string& sub_path = "") const {
    return {source(), sub_path, cache()};
  }

  std::filesystem::path Put(const std::string& name, const std::string& bytes) const {
    const std::filesystem::path file = source() / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }
  // Returns the content of a file in the cache; "<none>" if there is no such file.
  std::string Cached(const std::string& name) const {
    std::ifstream file(cache() / name, std::ios::binary | std::ios::ate);
    if (!file) return "<none>";
    std::string bytes(static_cast<std::size_t>(file.tellg()), '\0');
    file.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }

 private:
  std::filesystem::path root_;
};

}  // namespace ringmaster::agent
