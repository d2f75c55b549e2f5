#pragma once

// Structured logs, based on spdlog: one line with a constant message and key=value pairs, written
// to standard error.
//
//   LogInfo("Created the worker Pods", {{"job", key}, {"count", n}});
//
// Messages are capitalised, in the past tense and without a full stop. Log state changes at info
// and everything else at debug. Do not log an error that is also returned: the top of the call
// chain logs it once. Never log a secret.

#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace ringmaster {

// One key=value pair. Values with spaces or quotes are quoted in the output.
struct LogField {
  LogField(std::string_view k, std::string_view v) : key(k), value(v) {}
  LogField(std::string_view k, const char* v) : key(k), value(v) {}
  LogField(std::string_view k, const std::string& v) : key(k), value(v) {}
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
  LogField(std::string_view k, Number v) : key(k), value(std::to_string(v)) {}
  LogField(std::string_view k, bool v) : key(k), value(v ? "true" : "false") {}

  std::string_view key;
  std::string value;
};

using LogFields = std::initializer_list<LogField>;

enum class LogFormat { kText, kJson };

// Call once at the start of main(). Each log line contains `program`. `level` is debug, info, warn
// or error. Before this call, logs are text at level info.
void InitLog(std::string_view program, std::string_view level, LogFormat format);

// Returns true if `line`, without its newline, looks like text that LogDebug or LogInfo wrote.
bool IsRoutine(std::string_view line);

void LogDebug(std::string_view message, LogFields fields = {});
void LogInfo(std::string_view message, LogFields fields = {});
void LogWarn(std::string_view message, LogFields fields = {});
void LogError(std::string_view message, LogFields fields = {});

}  // namespace ringmaster
