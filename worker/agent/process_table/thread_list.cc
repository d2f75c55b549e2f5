#include "worker/agent/process_table/thread_list.h"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace ringmaster::agent {
namespace {

constexpr std::size_t kMaxText = 4096;

std::string FirstBytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxText, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::string FirstWord(const std::string& path) {
  const std::string text = FirstBytes(path);
  std::string word = text.substr(0, text.find_first_of(" \n"));
  for (char& c : word) {
    if (static_cast<unsigned char>(c) < 0x21 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return word;
}

ThreadInfo Describe(const std::string& folder, pid_t id) {
  ThreadInfo thread{.id = id};
  thread.name = FirstWord(folder + "/comm");
  thread.state = StateIn(FirstBytes(folder + "/stat"));
  thread.wchan = FirstWord(folder + "/wchan");
  if (thread.wchan == "0") thread.wchan.clear();
  thread.syscall = FirstWord(folder + "/syscall");
  if (thread.syscall == "running" || thread.syscall == "-1") thread.syscall.clear();
  return thread;
}

}  // namespace

char StateIn(std::string_view stat) {
  // The name may contain anything, including brackets.
  const std::size_t end = stat.rfind(')');
  if (end == std::string_view::npos || end + 2 >= stat.size()) return '?';
  return stat[end + 2];
}

char StateOf(pid_t process) {
  return StateIn(FirstBytes("/proc/" + std::to_string(process) + "/stat"));
}

bool StatShowsKill(std::string_view stat) {
  constexpr std::size_t kFlags = 6;  // fields after the name, counted from the state
  constexpr std::size_t kExitCode = 49;
  constexpr unsigned long kExiting = 0x4;  // the kernel's PF_EXITING
  constexpr unsigned long kSignalOfEnd = 0x7f;
  const std::size_t end = stat.rfind(')');
  if (end == std::string_view::npos) return false;
  std::istringstream fields{std::string(stat.substr(end + 1))};
  std::string word;
  unsigned long flags = 0;
  for (std::size_t i = 0; i <= kExitCode; ++i) {
    if (!(fields >> word)) return false;
    if (i == kFlags) flags = std::strtoul(word.c_str(), nullptr, 10);
  }
  const unsigned long code = std::strtoul(word.c_str(), nullptr, 10);
  return (flags & kExiting) != 0 && (code & kSignalOfEnd) == SIGKILL;
}

bool IsBeingKilled(pid_t process) {
  return StatShowsKill(FirstBytes("/proc/" + std::to_string(process) + "/stat"));
}

std::vector<ThreadInfo> ThreadsOf(pid_t process, std::size_t limit, std::size_t* count) {
  const std::string tasks = "/proc/" + std::to_string(process) + "/task";
  std::vector<pid_t> ids;
  std::error_code error;
  for (std::filesystem::directory_iterator it(tasks, error), end; !error && it != end;
       it.increment(error)) {
    ids.push_back(static_cast<pid_t>(std::atoi(it->path().filename().c_str())));
  }
  std::sort(ids.begin(), ids.end(), [process](pid_t a, pid_t b) {
    return std::pair(a != process, a) < std::pair(b != process, b);
  });
  *count = ids.size();
  if (ids.size() > limit) ids.resize(limit);
  std::vector<ThreadInfo> threads;
  for (const pid_t id : ids) threads.push_back(Describe(tasks + "/" + std::to_string(id), id));
  return threads;
}

bool Handles(pid_t process, int signal) {
  const std::string status = FirstBytes("/proc/" + std::to_string(process) + "/status");
  constexpr std::string_view kField = "SigCgt:\t";
  const std::size_t at = status.find(kField);
  if (at == std::string::npos) return false;
  std::uint64_t mask = 0;
  const char* const begin = status.data() + at + kField.size();
  std::from_chars(begin, status.data() + status.size(), mask, 16);
  return (mask >> (signal - 1) & 1U) != 0;
}

}  // namespace ringmaster::agent
