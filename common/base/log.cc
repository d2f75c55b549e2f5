#include "common/base/log.h"

#include <algorithm>
#include <memory>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "common/base/utf8.h"

namespace ringmaster {
namespace {

LogFormat g_format = LogFormat::kText;  // set once by InitLog before any thread starts

std::string Escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    switch (character.code) {
      case '"':
        escaped += "\\\"";
        break;
      case '\\':
        escaped += "\\\\";
        break;
      case '\n':
        escaped += "\\n";
        break;
      case '\r':
        escaped += "\\r";
        break;
      case '\t':
        escaped += "\\t";
        break;
      default:
        escaped += character.IsControl() ? kReplacement : text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  return escaped;
}

std::string Quoted(std::string_view text) { return '"' + Escape(text) + '"'; }

std::string TextValue(std::string_view value) {
  const bool plain = !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
    return c > ' ' && c < '\x7F' && c != '"' && c != '=' && c != '\\';
  });
  return plain ? std::string(value) : Quoted(value);
}

std::string Line(std::string_view message, LogFields fields) {
  std::string line;
  if (g_format == LogFormat::kJson) {
    line = Quoted(message);
    for (const LogField& field : fields)
      line += ',' + Quoted(field.key) + ':' + Quoted(field.value);
    return line;
  }
  line = message;
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    line += TextValue(field.value);
  }
  return line;
}

void Write(spdlog::level::level_enum level, std::string_view message, LogFields fields) {
  if (!spdlog::should_log(level)) return;
  spdlog::log(level, "{}", Line(message, fields));
}

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %l %n %v";
constexpr std::size_t kStampBytes = sizeof("2026-01-31T23:59:59.999Z") - 1;

}  // namespace

bool IsRoutine(std::string_view line) {
  if (line.size() <= kStampBytes || line[kStampBytes - 1] != 'Z') return false;
  const std::string_view rest = line.substr(kStampBytes);
  return rest.starts_with(" info ringmaster-") || rest.starts_with(" debug ringmaster-");
}

void InitLog(std::string_view program, std::string_view level, LogFormat format) {
  g_format = format;
  auto logger = std::make_shared<spdlog::logger>(std::string(program),
                                                 std::make_shared<spdlog::sinks::stderr_sink_mt>());
  if (format == LogFormat::kJson) {
    logger->set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","program":"%n","message":%v})",
        spdlog::pattern_time_type::utc);
  } else {
    logger->set_pattern(kTextPattern, spdlog::pattern_time_type::utc);
  }
  logger->set_level(spdlog::level::from_str(std::string(level)));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
}

void LogDebug(std::string_view message, LogFields fields) {
  Write(spdlog::level::debug, message, fields);
}
void LogInfo(std::string_view message, LogFields fields) {
  Write(spdlog::level::info, message, fields);
}
void LogWarn(std::string_view message, LogFields fields) {
  Write(spdlog::level::warn, message, fields);
}
void LogError(std::string_view message, LogFields fields) {
  Write(spdlog::level::err, message, fields);
}

}  // namespace ringmaster
