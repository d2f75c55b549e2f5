#include "worker/trainer/timeline/timeline_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>

namespace ringmaster::trainer {
namespace {

Error Failed(const std::string& path) {
  return {ErrorKind::kInvalid, "while writing the timeline " + path + ": " + std::strerror(errno) +
                                   "; name a file in a folder that exists and can be written"};
}

}  // namespace

Result<void> CheckTimelineFile(const std::string& path) {
  const std::string aside = path + ".part";
  std::FILE* const file = std::fopen(aside.c_str(), "a");
  if (file == nullptr) return Failed(path);
  std::fclose(file);
  std::remove(aside.c_str());
  return {};
}

Result<void> WriteTimelineFile(const std::string& path, const std::vector<std::string>& ranks) {
  const std::string aside = path + ".part";
  std::ofstream file(aside, std::ios::binary | std::ios::trunc);
  file << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  for (std::size_t i = 0; i < ranks.size(); ++i) file << (i == 0 ? "\n" : ",\n") << ranks[i];
  file << "\n]}\n";
  file.close();
  if (!file || std::rename(aside.c_str(), path.c_str()) != 0) return Failed(path);
  return {};
}

}  // namespace ringmaster::trainer
