#include "worker/launcher/tagged_output.h"

#include <cerrno>
#include <unistd.h>

namespace ringmaster::launcher {

std::string TagLines(const std::string& whose, bool is_stderr, std::string_view data) {
  const std::string tag = "[" + whose + (is_stderr ? "]<stderr>: " : "]<stdout>: ");
  std::string tagged;
  while (!data.empty()) {
    const std::size_t end = data.find('\n');
    tagged += tag;
    tagged += data.substr(0, end);
    tagged += '\n';
    data.remove_prefix(end == std::string_view::npos ? data.size() : end + 1);
  }
  return tagged;
}

void PassThrough(bool is_stderr, std::string_view data) {
  const int fd = is_stderr ? STDERR_FILENO : STDOUT_FILENO;
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno != EINTR) return;
    if (n > 0) data.remove_prefix(static_cast<std::size_t>(n));
  }
}

}  // namespace ringmaster::launcher
