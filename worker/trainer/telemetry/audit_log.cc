#include "worker/trainer/telemetry/audit_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "common/base/hex.h"
#include "common/base/log.h"

namespace ringmaster::trainer {
namespace {

constexpr std::string_view kFileEnding = ".jsonl";

std::string Quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x", static_cast<unsigned>(c));
      quoted += escape.data();
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string Pair(int64_t first, int64_t second) {
  return "[" + std::to_string(first) + "," + std::to_string(second) + "]";
}

std::string Of(control::Epoch epoch) { return Pair(epoch.term, epoch.number); }

std::string From(StateOrigin origin) {
  const std::string name = NameOf(origin);
  return name.empty() ? "" : ",\"from\":\"" + name + "\"";
}

std::string Optional(const char* name, const std::optional<uint64_t>& checksum) {
  if (!checksum) return "";
  return std::string(",\"") + name + "\":\"" + HexOf(*checksum) + "\"";
}

std::string StepFields(const World& world, int64_t step, Share samples) {
  return "\"step\":" + std::to_string(step) + ",\"epoch\":" + Of(world.epoch) +
         ",\"rank\":" + std::to_string(world.rank) +
         ",\"samples\":" + Pair(samples.begin, samples.end);
}

}  // namespace

Result<AuditLog> AuditLog::Open(const std::string& path) {
  AuditLog log;
  log.path_ = path;
  if (path.empty() || path.ends_with(kFileEnding)) return log;
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!std::filesystem::is_directory(path) || ::access(path.c_str(), W_OK) != 0) {
    return Error{ErrorKind::kInvalid, "while opening the audit log's folder " + path + ": " +
                                          (error ? error.message() : "cannot write into it")};
  }
  return log;
}

AuditLog::AuditLog(AuditLog&& other) noexcept { *this = std::move(other); }

AuditLog& AuditLog::operator=(AuditLog&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(file_, other.file_);
  return *this;
}

AuditLog::~AuditLog() {
  if (file_ >= 0) ::close(file_);
}

void AuditLog::Entered(const World& world, int64_t global_batch, const Adopted& adopted,
                       const std::string& residuals) {
  if (!on()) return;
  if (file_ < 0) OpenFile(world);
  std::string members;
  for (const std::string& member : world.members) {
    members += (members.empty() ? "" : ",") + Quoted(member);
  }
  Write("{\"world\":{\"term\":" + std::to_string(world.epoch.term) +
        ",\"number\":" + std::to_string(world.epoch.number) +
        ",\"rank\":" + std::to_string(world.rank) + ",\"size\":" + std::to_string(world.size) +
        (world.full_size > 0 ? ",\"full_size\":" + std::to_string(world.full_size) : "") +
        ",\"global_batch\":" + std::to_string(global_batch) + ",\"members\":[" + members +
        "],\"adopted\":{\"epoch\":" + Of(adopted.held.EpochOfRun()) +
        ",\"step\":" + std::to_string(adopted.held.version.step) + From(adopted.held.origin) +
        "},\"checksum\":\"" + HexOf(adopted.checksum) + '"' + Optional("sharded", adopted.sharded) +
        (residuals.empty() ? "" : ",\"residuals\":" + Quoted(residuals)) + "}}\n");
}

void AuditLog::Begun(const World& world, int64_t step, Share samples) {
  if (on()) Write("{\"begun\":{" + StepFields(world, step, samples) + "}}\n");
}

void AuditLog::Applied(const World& world, int64_t step, Share samples, uint64_t checksum,
                       std::optional<uint64_t> part) {
  if (!on()) return;
  Write("{" + StepFields(world, step, samples) + ",\"checksum\":\"" + HexOf(checksum) + "\"" +
        Optional("part", part) + "}\n");
}

void AuditLog::OpenFile(const World& world) {
  std::string file = path_;
  if (!file.ends_with(kFileEnding)) {
    std::string name = world.members.at(static_cast<std::size_t>(world.rank));
    std::replace(name.begin(), name.end(), '/', '-');
    file += "/" + name + std::string(kFileEnding);
  }
  file_ = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) End("opening");
}

void AuditLog::Write(const std::string& line) {
  if (file_ < 0) return;
  ssize_t written = 0;
  do {
    written = ::write(file_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(line.size())) End("writing");
}

void AuditLog::End(const char* doing) {
  LogWarn("Failed to write the audit log; further steps cannot be audited",
          {{"doing", doing}, {"path", path_}, {"reason", std::strerror(errno)}});
  if (file_ >= 0) ::close(file_);
  file_ = -1;
  path_.clear();
}

}  // namespace ringmaster::trainer
