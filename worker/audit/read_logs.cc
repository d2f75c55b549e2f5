#include "worker/audit/read_logs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace ringmaster::audit {
namespace {

constexpr std::size_t kMostFiles = 100'000;

Error Invalid(const std::string& where, const std::string& what) {
  return {ErrorKind::kInvalid, where + ": " + what};
}

}  // namespace

Result<std::vector<std::string>> FindLogs(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (!fs::exists(path, error)) return Invalid(path, "the file does not exist");
      files.push_back(path);
      continue;
    }
    fs::recursive_directory_iterator entries(path, error);
    while (!error && entries != fs::recursive_directory_iterator()) {
      if (entries->path().extension() == ".jsonl") files.push_back(entries->path().string());
      if (files.size() > kMostFiles) return Invalid(path, "contains too many logs");
      entries.increment(error);
    }
    if (error) return Invalid(path, error.message());
  }
  if (files.empty()) return Error{ErrorKind::kInvalid, "there are no audit logs (*.jsonl)"};
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

Result<void> ReadLog(const std::string& file, Audit& audit) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return Invalid(file, "cannot be read");
  const Audit::LogId log = audit.NewLog(file);
  std::vector<char> buffer(kMaxLineBytes + 2);
  for (int64_t number = 1;; ++number) {
    stream.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    const auto read = static_cast<std::size_t>(stream.gcount());
    if (stream.eof()) {
      if (read > 0) audit.Torn(log);
      return {};
    }
    const std::string where = file + ":" + std::to_string(number);
    if (stream.bad()) return Invalid(where, "cannot be read");
    if (stream.fail()) return Invalid(where, "the line is too long");
    const Result<AuditLine> line = ParseLine({buffer.data(), read - 1});
    if (!line.ok()) return Invalid(where, line.error().message);
    const Result<void> added = audit.Add(log, *line);
    if (!added.ok()) return Invalid(where, added.error().message);
  }
}

}  // namespace ringmaster::audit
