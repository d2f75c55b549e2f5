#include "worker/trainer/comm/file_store.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace ringmaster::trainer {

Result<std::unique_ptr<FileStore>> FileStore::Open(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    return Error{ErrorKind::kInvalid,
                 "while opening the rendezvous folder " + folder + ": " + error.message()};
  }
  return std::unique_ptr<FileStore>(new FileStore(folder));
}

std::string FileStore::PathOf(const std::string& key) const {
  std::string name = key;
  std::replace(name.begin(), name.end(), '/', '.');
  return folder_ + "/" + name;
}

Result<void> FileStore::Set(const std::string& key, const std::string& value) {
  const std::string path = PathOf(key);
  const std::string aside = path + ".writing." + std::to_string(::getpid());
  std::ofstream file(aside, std::ios::binary | std::ios::trunc);
  file << value;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(aside, path, error);  // readers never see a partial file
  if (!file || error) {
    return Error{ErrorKind::kUnavailable,
                 "while writing " + path + ": " + (error ? error.message() : "cannot write")};
  }
  return {};
}

Result<std::vector<std::string>> FileStore::Get(const std::vector<std::string>& keys,
                                                Deadline deadline) {
  std::vector<std::string> values;
  values.reserve(keys.size());
  const auto start = std::chrono::steady_clock::now();
  for (const std::string& key : keys) {
    for (;;) {
      std::ifstream file(PathOf(key), std::ios::binary);
      if (file) {
        std::ostringstream text;
        text << file.rdbuf();
        values.push_back(text.str());
        break;
      }
      if (std::chrono::steady_clock::now() >= deadline) {
        return Error{ErrorKind::kTimeout, "no rank wrote " + PathOf(key) +
                                              " in time; check that all ranks have started"};
      }
      // Poll less often in a longer wait, to leave the cores to ranks that compute.
      const auto waited = std::chrono::steady_clock::now() - start;
      std::this_thread::sleep_for(std::clamp<std::chrono::steady_clock::duration>(
          waited / 16, std::chrono::milliseconds(2), std::chrono::milliseconds(50)));
    }
  }
  return values;
}

}  // namespace ringmaster::trainer
