#include "common/base/log.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include "common/base/utf8.h"

namespace ringmaster {
namespace {

struct Logger {
  LogFormat format;
  spdlog::logger writer;
};

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

std::string Line(LogFormat format, std::string_view message, LogFields fields) {
  std::string line;
  if (format == LogFormat::kJson) {
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

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%eZ %l %n %v";
constexpr std::size_t kStampBytes = sizeof("2026-01-31T23:59:59.999Z") - 1;

std::unique_ptr<Logger> MakeLogger(std::string_view program, std::string_view level,
                                   LogFormat format) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  std::unique_ptr<Logger> logger(
      new Logger{format, spdlog::logger(std::string(program), std::move(sink))});
  spdlog::logger& writer = logger->writer;
  if (format == LogFormat::kJson) {
    writer.set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ","level":"%l","program":"%n","message":%v})",
        spdlog::pattern_time_type::utc);
  } else {
    writer.set_pattern(kTextPattern, spdlog::pattern_time_type::utc);
  }
  writer.set_level(spdlog::level::from_str(std::string(level)));
  writer.flush_on(spdlog::level::debug);
  return logger;
}

// Loggers are never destroyed, because a thread may log while the process ends. They are our own,
// because a program that uses our library may use spdlog's default logger.
struct Loggers {
  std::vector<std::unique_ptr<Logger>> all;
  std::atomic<Logger*> current;

  void Use(std::unique_ptr<Logger> logger) {
    current = logger.get();
    all.push_back(std::move(logger));
  }
};

Loggers& TheLoggers() {
  static Loggers* const loggers = [] {
    auto* const made = new Loggers;
    made->Use(MakeLogger(program_invocation_short_name, "info", LogFormat::kText));
    return made;
  }();
  return *loggers;
}

void Write(spdlog::level::level_enum level, std::string_view message, LogFields fields) {
  Logger& logger = *TheLoggers().current;
  if (!logger.writer.should_log(level)) return;
  logger.writer.log(level, "{}", Line(logger.format, message, fields));
}

}  // namespace

bool IsRoutine(std::string_view line) {
  if (line.size() <= kStampBytes || line[kStampBytes - 1] != 'Z') return false;
  const std::string_view rest = line.substr(kStampBytes);
  return rest.starts_with(" info ringmaster-") || rest.starts_with(" debug ringmaster-");
}

void InitLog(std::string_view program, std::string_view level, LogFormat format) {
  TheLoggers().Use(MakeLogger(program, level, format));
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
