#include "worker/agent/process_table/stack_text.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cxxabi.h>
#include <map>
#include <memory>

namespace ringmaster::agent {
namespace {

constexpr std::size_t kMaxFrameBytes = 120;
constexpr std::size_t kMaxMangledBytes = 1024;

const char* StateText(char state) {
  switch (state) {
    case 'R':
      return "running";
    case 'S':
      return "sleeping";
    case 'D':
      return "in an uninterruptible wait";
    case 'T':
      return "stopped by a signal";
    case 't':
      return "stopped by a debugger";
    case 'Z':
    case 'X':
      return "ended";
    default:
      return "in an unknown state";
  }
}

// Returns the source name of a C++ function. Returns the symbol itself if it is not a mangled name
// (the demangler would read "i" as the type int) or if the name is too long to be readable.
std::string Demangled(const std::string& name) {
  if (!name.starts_with("_Z") || name.size() > kMaxMangledBytes) return name;
  int status = -1;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 && text != nullptr ? text.get() : name;
}

std::string_view NextLine(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

// Returns the frames of each thread that wrote frames.
std::map<pid_t, std::vector<std::string>> FramesByThread(std::string_view written) {
  constexpr std::string_view kHeader = "thread ";
  std::map<pid_t, std::vector<std::string>> frames;
  std::vector<std::string>* current = nullptr;
  while (!written.empty()) {
    const std::string_view line = NextLine(written);
    pid_t id = 0;
    if (line.starts_with(kHeader) &&
        std::from_chars(line.data() + kHeader.size(), line.data() + line.size(), id).ec ==
            std::errc()) {
      current = &frames[id];
    } else if (current != nullptr && !line.empty()) {
      current->push_back(FrameText(line));
    }
  }
  return frames;
}

}  // namespace

std::string FrameText(std::string_view frame) {
  std::string text(frame.substr(0, frame.find(" [")));
  const std::size_t open = text.find('(');
  std::string module = text.substr(0, open);
  module.erase(0, module.rfind('/') + 1);  // the whole text if it has no slash
  if (open == std::string::npos) return module.substr(0, kMaxFrameBytes);
  const std::size_t plus = text.find('+', open);
  const std::size_t close = text.find(')', open);
  const std::size_t name_end = std::min({plus, close, text.size()});
  std::string name = Demangled(text.substr(open + 1, name_end - open - 1));
  if (name.size() > kMaxFrameBytes) name = name.substr(0, kMaxFrameBytes) + "...";
  const std::string offset =
      plus < close ? text.substr(plus, close == std::string::npos ? close : close - plus) : "";
  return module.substr(0, kMaxFrameBytes) + '(' + name + offset + ')';
}

std::string StackText(const std::vector<ThreadInfo>& threads, std::size_t count,
                      std::string_view written) {
  const auto frames = FramesByThread(written);
  std::string text;
  for (const ThreadInfo& thread : threads) {
    text +=
        "thread " + std::to_string(thread.id) + ' ' + thread.name + ", " + StateText(thread.state);
    if (!thread.wchan.empty()) text += " in " + thread.wchan;
    if (!thread.syscall.empty()) text += ", system call " + thread.syscall;
    text += '\n';
    const auto found = frames.find(thread.id);
    if (found == frames.end()) continue;
    int number = 0;
    for (const std::string& frame : found->second) {
      text += "  #" + std::to_string(number++) + ' ' + frame + '\n';
    }
  }
  if (count > threads.size()) {
    text += "and " + std::to_string(count - threads.size()) + " more threads\n";
  }
  return text;
}

std::string Shortened(const std::string& text, std::size_t limit) {
  constexpr std::string_view kMore = "... (the rest is in the agent's log)\n";
  if (text.size() <= limit) return text;
  const std::string kept = text.substr(0, limit - kMore.size());
  return kept.substr(0, kept.rfind('\n') + 1) + std::string(kMore);  // npos + 1 is 0
}

}  // namespace ringmaster::agent
